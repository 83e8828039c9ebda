"""What several subcommands do: parse numbers, print lines and tables of results, run sessions of pytest."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from ..comparison.base.exchange import complaint_in
from ..errors import UsageMistake
from ..git_command import run_command
from ..names import FIGURES
from ..reporting.document import Document, read_document
from ..reporting.terminal.console import comparison_notices, summary_lines
from ..reporting.terminal.fitting import folded, terminal_width
from ..reporting.terminal.table import Paint
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult

#: What ``ArgumentParser.add_subparsers`` returns.
Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_PYTEST: Final = (sys.executable, "-m", "pytest", "--membudget")
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


def report_of_session(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> Document:
    """The report of ``pytest --membudget`` with ``arguments``, in this folder and environment.

    ``variables`` are added to the environment. The exit status does not matter: tests may fail. Raises
    ``UsageMistake`` with pytest's message if no test was estimated.
    """
    with tempfile.TemporaryDirectory(prefix="membudget-") as folder:
        command = [*_PYTEST, *arguments, f"--membudget-report={folder}"]
        done = run_command(command, environment={**os.environ, FIGURES: "1", **(variables or {})})
        path = Path(folder, "report.json")
        document = read_document(path) if path.is_file() else Document(())
    if not document.tests:
        shown = " ".join(["pytest", "--membudget", *arguments])
        raise UsageMistake(f"`{shown}` estimated no test: {complaint_in(done.stderr + done.stdout)}")
    return document
