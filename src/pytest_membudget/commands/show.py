"""``membudget show``: a report.json in the terminal, as the session printed it."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..reporting.document.reading import read_document
from ..reporting.terminal.failure import failure_text
from ..reporting.terminal.fitting import terminal_width
from .terminal import Subcommands, painted, print_table


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``show``."""
    parser = commands.add_parser(
        "show", help="print a report.json", description="The failures of a report.json, and its table."
    )
    parser.set_defaults(run=_run)
    parser.add_argument("report", type=Path, metavar="report.json", help="what --membudget-report wrote")
    parser.add_argument("-v", "--verbose", action="store_true", help="list all tests, however many")


def _run(options: argparse.Namespace) -> int:
    document = read_document(options.report)
    width = terminal_width()
    for result in document.tests:
        if result.fails:
            print(painted(f" {result.nodeid} ".center(width, "_"), "red"))
            print(failure_text(result, width), end="\n\n")
    print_table(document.tests, document.comparison, is_verbose=options.verbose)
    return 0
