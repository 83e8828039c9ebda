"""``membudget diff``: what has changed from one report.json to another."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ..comparison.base.base_results import base_of_document
from ..reporting.document.reading import read_document
from ..reporting.terminal.console import changed_lines
from ..reporting.terminal.fitting import terminal_width
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
    from ..comparison.base.sources import StoredReport  # imports pytest
    from ..comparison.comparing import Comparing

    before, now = (base_of_document(read_document(path)) for path in (options.base, options.head))
    comparing = Comparing(StoredReport(str(options.base), before), facts=lambda: now.facts)
    results = [comparing.compare(replace(result, comparison=None)) for result in now.results.values()]
    session = comparing.session(results, is_whole=True, lists_removed=True)
    print_lines(changed_lines(results, terminal_width()))
    print_table(results, session, is_verbose=options.verbose, lists_changes=False)
    return 0
