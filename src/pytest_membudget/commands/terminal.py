"""What several subcommands do in the terminal: parse numbers, print lines, and a table of results."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from ..reporting.terminal.console import comparison_notices, summary_lines
from ..reporting.terminal.fitting import folded, terminal_width
from ..reporting.terminal.table import Paint
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult

#: What ``ArgumentParser.add_subparsers`` returns.
Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_COLOURS: Final = {"red": 31, "green": 32, "yellow": 33}


def at_least_one(text: str) -> int:
    """Parse a whole number from 1 to 10**9."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print ``lines`` as they come, folded to the width of the terminal."""
    for line in folded(lines, terminal_width()):
        print(line, flush=True)


def table_of(
    results: Sequence[TestResult],
    compared: ComparedSession | None,
    paint: Paint,
    *,
    is_verbose: bool,
    lists_changes: bool = True,
) -> Iterator[str]:
    """What a session prints at its end of ``results``; without ``lists_changes`` not what has changed."""
    width = terminal_width()
    yield from folded(comparison_notices(compared), width)
    yield from summary_lines(
        results, width=width, paint=paint, is_verbose=is_verbose, lists_changes=lists_changes
    )


def painted(text: str, colour: str) -> str:
    """``text`` in a colour, on a terminal whose user has not switched colours off (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
