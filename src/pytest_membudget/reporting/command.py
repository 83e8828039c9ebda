"""``membudget report``: a report.json in another format. Needs neither torch nor pytest nor the tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import UsageMistake
from ..units import MIB
from .document import MOST_FILE_BYTES, Document, read_document
from .files import junit, markdown, metrics
from .files.annotations import code_quality, workflow_commands
from .status import is_notable

#: A command line or a report that cannot be used, as argparse has it.
_UNUSABLE = 2

Writer = Callable[[Document, argparse.Namespace], str]


def _markdown(document: Document, options: argparse.Namespace) -> str:
    if options.skip_fine and not is_notable(document):
        return ""
    return markdown.markdown(document, limit=options.limit, marker=options.marker)


def _html(document: Document, options: argparse.Namespace) -> str:
    from .files.page import page  # its libraries are an extra

    return page(document)


_WRITERS: dict[str, Writer] = {
    "markdown": _markdown,
    "html": _html,
    "junit": lambda document, options: junit.junit(document),
    "github": lambda document, options: workflow_commands(document, root=options.root, prefix=options.prefix),
    "gitlab-metrics": lambda document, options: metrics.open_metrics(document),
    "gitlab-codequality": lambda document, options: code_quality(document),
    "github-action-benchmark": lambda document, options: metrics.smaller_is_better(document),
    "bencher": lambda document, options: metrics.bencher(document),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. 0: it was written, whatever the report says; 2: it could not be."""
    options = _parser().parse_args(arguments)
    try:
        document = read_document(options.report, options.max_mib * MIB)
        text = _WRITERS[options.format](document, options)
        _write(text, options.output)
    except UsageMistake as error:
        print(f"membudget: {error}", file=sys.stderr)
        return _UNUSABLE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="membudget", description="Reports of GPU-memory budgets.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="write a report.json in another format",
        description="Write a report.json in another format. The report is checked first.",
    )
    report.add_argument("report", type=Path, metavar="report.json", help="what --membudget-report wrote")
    report.add_argument("--format", required=True, choices=list(_WRITERS))
    report.add_argument("--output", type=Path, help="the file to write; standard output without")
    report.add_argument(
        "--max-mib",
        type=_at_least_one,
        default=MOST_FILE_BYTES // MIB,
        help="refuse a larger report (default %(default)s)",
    )
    only_markdown = report.add_argument_group("markdown")
    only_markdown.add_argument(
        "--limit",
        type=_at_least_one,
        default=markdown.COMMENT_LIMIT,
        help="bytes to stay below (default %(default)s, a comment; a job summary may have 1048576)",
    )
    only_markdown.add_argument(
        "--marker", type=_word, default="", help="a hidden name in the first line, to find the comment again"
    )
    only_markdown.add_argument(
        "--skip-fine", action="store_true", help="write nothing where nothing fails and nothing has changed"
    )
    only_github = report.add_argument_group("github")
    only_github.add_argument(
        "--root", type=Path, default=Path(), help="the folder that pytest ran in (default: here)"
    )
    only_github.add_argument(
        "--prefix", default="", help="the way to that folder from the root of the repository"
    )
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


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
    except OSError as error:
        raise UsageMistake(f"{output or 'standard output'}: cannot be written: {error.strerror}") from None
