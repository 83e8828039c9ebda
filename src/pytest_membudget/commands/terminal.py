"""Prints for subcommands: a session's summary, and lines folded to the width of the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from ..reporting.terminal.console import comparison_notices, summary_lines
from ..reporting.terminal.fitting import folded, terminal_width
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult

_COLOURS = {"red": 31, "green": 32, "yellow": 33}


def painted(text: str, colour: str) -> str:
    """``text`` in a colour, on a terminal whose user has not switched colours off (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def print_lines(lines: Iterable[str]) -> None:
    """Print ``lines`` as they come, folded to the width of the terminal."""
    for line in folded(lines, terminal_width()):
        print(line, flush=True)


def print_table(
    results: Sequence[TestResult],
    compared: ComparedSession | None,
    *,
    is_verbose: bool,
    lists_changes: bool = True,
) -> None:
    """Print the summary of ``results``; the options are those of ``summary_lines``."""
    unchecked = {result.nodeid: result.reason for result in results if result.verdict == "skipped"}
    notes = {result.nodeid: "expected" for result in results if result.expected}
    width = terminal_width()
    lines = summary_lines(
        results,
        unchecked,
        notes,
        0,
        width=width,
        paint=painted,
        is_verbose=is_verbose,
        lists_changes=lists_changes,
    )
    print_lines(comparison_notices(compared))
    for line in lines:
        print(line)
