"""``membudget diff``: what has changed from one report.json to another."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..budgets.verdict import ERROR, SKIPPED
from ..comparison.base.base_results import Base, base_of_document
from ..comparison.verdicts import compared
from ..reporting.document.reading import read_document
from ..reporting.terminal.console import changed_lines
from ..reporting.terminal.fitting import terminal_width
from ..results.comparison import BaseName, ComparedSession
from ..results.test_result import TestResult, with_comparison
from .terminal import Subcommands, print_lines, print_table


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``diff``."""
    parser = commands.add_parser(
        "diff",
        help="compare two report.json",
        description="What tests of HEAD take more or less than in BASE, and why.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("base", type=Path, metavar="BASE", help="a report.json")
    parser.add_argument("head", type=Path, metavar="HEAD", help="a later report.json")
    parser.add_argument("-v", "--verbose", action="store_true", help="list all tests, however many")


def _run(options: argparse.Namespace) -> int:
    before, now = (base_of_document(read_document(path)) for path in (options.base, options.head))
    results = [_compared(result, before, now) for result in now.results.values()]
    session = _session(str(options.base), results, before, now)
    print_lines(changed_lines(results, terminal_width()))
    print_table(results, session, is_verbose=options.verbose, lists_changes=False)
    return 0


def _compared(result: TestResult, before: Base, now: Base) -> TestResult:
    if result.verdict in (ERROR, SKIPPED):
        return replace(result, comparison=None)
    base = before.results.get(result.nodeid)
    return with_comparison(result, compared(result, base, (now.facts, before.facts)))


def _session(ref: str, results: Sequence[TestResult], before: Base, now: Base) -> ComparedSession:
    return ComparedSession(
        BaseName(ref),
        removed=tuple(nodeid for nodeid in before.results if nodeid not in now.results),
        skipped=before.newly_skipped(results),
        distributions=before.facts.version_changes(now.facts),
    )
