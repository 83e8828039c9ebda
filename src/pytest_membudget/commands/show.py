"""``membudget show`` and ``membudget diff``: a report.json in the terminal, and what changed between two."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..comparison.base.exchange import base_of_document
from ..reporting.document import read_document
from ..reporting.terminal.console import changed_lines, comparison_notices, summary_lines
from ..reporting.terminal.failure import failure_text
from ..reporting.terminal.fitting import terminal_width
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult
from .terminal import Subcommands, print_lines

_COLOURS = {"red": 31, "green": 32, "yellow": 33}


def add_to(commands: Subcommands) -> None:
    """Add the subcommands ``show`` and ``diff``."""
    show = commands.add_parser(
        "show", help="print a report.json", description="The failures of a report.json, and its table."
    )
    show.set_defaults(run=_show)
    show.add_argument("report", type=Path, metavar="report.json", help="what --membudget-report wrote")
    diff = commands.add_parser(
        "diff",
        help="compare two report.json",
        description="What tests of HEAD take more or less than in BASE, and why.",
    )
    diff.set_defaults(run=_diff)
    diff.add_argument("base", type=Path, metavar="BASE", help="a report.json")
    diff.add_argument("head", type=Path, metavar="HEAD", help="a later report.json")
    for parser in (show, diff):
        parser.add_argument("-v", "--verbose", action="store_true", help="list all tests, however many")


def _show(options: argparse.Namespace) -> int:
    document = read_document(options.report)
    width = terminal_width()
    for result in document.tests:
        if result.fails:
            print(_painted(f" {result.nodeid} ".center(width, "_"), "red"))
            print(failure_text(result, width), end="\n\n")
    _print_table(document.tests, document.comparison, options)
    return 0


def _diff(options: argparse.Namespace) -> int:
    from ..comparison.base.sources import StoredReport  # imports pytest
    from ..comparison.comparing import Comparing

    before, now = (base_of_document(read_document(path)) for path in (options.base, options.head))
    comparing = Comparing(StoredReport(str(options.base), before), facts=lambda: now.facts)
    results = [comparing.compare(replace(result, comparison=None)) for result in now.results.values()]
    session = comparing.session(results, is_whole=True, lists_removed=True)
    print_lines(changed_lines(results, terminal_width()))
    _print_table(results, session, options, lists_changes=False)
    return 0


def _print_table(
    results: Sequence[TestResult],
    compared: ComparedSession | None,
    options: argparse.Namespace,
    lists_changes: bool = True,
) -> None:
    print_lines(comparison_notices(compared))
    width, is_verbose = terminal_width(), options.verbose
    for line in summary_lines(
        results, width=width, paint=_painted, is_verbose=is_verbose, lists_changes=lists_changes
    ):
        print(line)


def _painted(text: str, colour: str) -> str:
    """``text`` in a colour, on a terminal whose user has not switched colours off (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
