"""Escapes text that came from code, for each format."""

import json
import re

NO_BREAK, NO_BREAK_DASH = "\u00a0", "\u2011"
"""A space and a hyphen at which no line of a table's cell ends."""
_MARKDOWN = re.compile(r"[^A-Za-z0-9 /-]")
#: Characters that end a table's cell or a code span.
_NOT_IN_TABLES = re.compile(r"[|`]")


def markdown_code(text: str) -> str:
    """``text`` as inline code, in a table too: nothing in it is markup, a link, a mention or a cell's end.

    GitHub looks for mentions and links outside of code alone. Backticks are not enough in tables, which
    have another rule for ``|``: such texts are written as character references.
    """
    flat = " ".join(text.split())
    if not flat:
        return ""
    if _NOT_IN_TABLES.search(flat):
        return html_code(flat)
    return f"`{flat}`"


def html_code(text: str) -> str:
    """``text`` as inline code inside HTML, where Markdown's backticks have no meaning."""
    return f"<code>{_MARKDOWN.sub(lambda char: f'&#{ord(char[0])};', ' '.join(text.split()))}</code>"


def markdown_block(text: str) -> str:
    """``text`` as a fenced block; the fence is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def command_data(text: str) -> str:
    """``text`` as the message of a workflow command of GitHub.

    As the runner's toolkit escapes it (actions/toolkit, packages/core/src/command.ts).
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """``text`` as a property of a workflow command: file, title."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def script_json(value: object) -> str:
    """``value`` as JSON inside a script element; ``</script>`` and comments in it are escaped."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
