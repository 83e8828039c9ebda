"""``membudget report``: a report.json in the terminal, or in a format. Imports neither torch nor pytest."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import UsageMistake
from ..reporting.document import MOST_FILE_BYTES, Document, read_document
from ..reporting.files import markdown
from ..reporting.files.annotations import code_quality, workflow_commands
from ..reporting.links import links_of
from ..reporting.status import is_notable
from ..reporting.terminal.failure import failure_text
from ..reporting.terminal.fitting import terminal_width
from ..units import MIB
from .terminal import Subcommands, at_least_one, painted, table_of

Writer = Callable[[Document, argparse.Namespace], str]


def _terminal(document: Document, options: argparse.Namespace) -> str:
    paint = painted if options.output is None else lambda text, colour: text

    def lines() -> Iterator[str]:
        width = terminal_width()
        for result in document.tests:
            if result.fails:
                yield paint(f" {result.nodeid} ".center(width, "_"), "red")
                yield f"{failure_text(result, width)}\n"
        yield from table_of(document.tests, document.comparison, paint, is_verbose=options.verbose)

    return "".join(f"{line}\n" for line in lines())


def _markdown(document: Document, options: argparse.Namespace) -> str:
    if options.skip_fine and not is_notable(document):
        return ""
    links = links_of(document, os.environ)
    more = ""
    if options.history is not None:
        from ..reporting.files.curves import curves  # reads YAML

        more = curves(options.history, document.tests)
    return markdown.markdown(document, limit=options.limit, marker=options.marker, links=links, more=more)


def _html(document: Document, options: argparse.Namespace) -> str:
    from ..reporting.files.page import page  # its libraries are an extra

    return page(document, links_of(document, os.environ))


WRITERS: dict[str, Writer] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "html": _html,
    "github": lambda document, options: workflow_commands(document, root=options.root, prefix=options.prefix),
    "gitlab": lambda document, options: code_quality(document),
}


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``report``."""
    report = commands.add_parser(
        "report",
        help="print a report.json, or write it in another format",
        description="Print a report.json, or write it in another format. The report is checked first.",
    )
    report.set_defaults(run=_run)
    report.add_argument("report", type=Path, metavar="report.json", help="what --membudget-report wrote")
    report.add_argument("--format", default="terminal", choices=list(WRITERS), help="default: %(default)s")
    report.add_argument("--output", type=Path, help="the file to write; standard output without")
    report.add_argument(
        "--max-mib",
        type=at_least_one,
        default=MOST_FILE_BYTES // MIB,
        help="refuse a larger report (default %(default)s)",
    )
    report.add_argument("-v", "--verbose", action="store_true", help="terminal: list all tests, however many")
    only_markdown = report.add_argument_group("markdown")
    only_markdown.add_argument(
        "--limit",
        type=at_least_one,
        default=markdown.COMMENT_LIMIT,
        help="bytes to stay below (default %(default)s, a comment; a job summary may have 1048576)",
    )
    only_markdown.add_argument(
        "--marker", type=_word, default="", help="a hidden name in the first line, to find the comment again"
    )
    only_markdown.add_argument(
        "--skip-fine", action="store_true", help="write nothing where nothing fails and nothing has changed"
    )
    only_markdown.add_argument(
        "--history", type=Path, help="the folder of the lock file: add curves over its commits in git"
    )
    only_github = report.add_argument_group("github")
    only_github.add_argument(
        "--root", type=Path, default=Path(), help="the folder that pytest ran in (default: here)"
    )
    only_github.add_argument(
        "--prefix", default="", help="the way to that folder from the root of the repository"
    )


def _run(options: argparse.Namespace) -> int:
    document = read_document(options.report, options.max_mib * MIB)
    _write(WRITERS[options.format](document, options), options.output)
    return 0  # whatever its verdicts are


def _word(text: str) -> str:
    if not all(char.isalnum() or char in "._-" for char in text) or "--" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of letters, digits, dots and dashes")
    return text


def _write(text: str, output: Path | None) -> None:
    data = text.encode("utf-8")
    try:
        if output is None:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        else:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_bytes(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageMistake(f"{output or 'standard output'}: cannot be written: {error.strerror}") from None
