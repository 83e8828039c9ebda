"""Escapes text that came from code, for each format."""

from __future__ import annotations

import json
import re
import unicodedata

#: Of Unicode's categories: control, format (direction overrides, zero widths), surrogate, private, none (XML
#: has no way to write some of them), line and paragraph separators.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKDOWN = re.compile(r"[^A-Za-z0-9 /-]")
#: Characters that end a table's cell or a code span.
_NOT_IN_TABLES = re.compile(r"[|`]")


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with control characters written as ``\\x1b``; with ``lines``, newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(_written(char) if char not in kept and _is_hidden(char) else char for char in text)


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN


def _written(char: str) -> str:
    code = ord(char)
    if char == "\n":
        return "\\n"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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
    return f"<code>{_MARKDOWN.sub(_reference, ' '.join(text.split()))}</code>"


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


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


def metric_label(text: str) -> str:
    """``text`` as the value of a label of OpenMetrics, which GitLab reads too.

    GitLab takes what follows a ``#`` for a comment wherever it is, and splits the line as a shell
    does, with quotes (lib/gitlab/ci/parsers/metrics/generic.rb): ``#`` is written as ``%23``.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return escaped.replace("#", "%23")
