"""``membudget compare``: two reports, or two snapshots of an allocator's history, and what differs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..comparison.base.exchange import base_of_document
from ..errors import UsageMistake
from ..git_command import run_git
from ..histories.comparison import sides
from ..histories.reading import read_snapshot, window_from
from ..reporting.document import read_document
from ..reporting.terminal.console import changed_lines
from ..reporting.terminal.fitting import terminal_width
from .histories import comparison_lines
from .terminal import Subcommands, painted, print_lines, table_of

_REPORT: Final = "a report"
_SNAPSHOT: Final = "a snapshot"
_WRITE: Final = (
    "write a report.json (of --membudget-report), or a snapshot (torch.cuda.memory._dump_snapshot)"
)
#: How a pickle begins, from protocol 2 on (Python 3.0).
_PICKLE: Final = b"\x80"
#: Bytes that say what a file is; white space before JSON's first brace is shorter.
_START_BYTES: Final = 1024


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``compare``."""
    parser = commands.add_parser(
        "compare",
        help="compare two report.json, or a recorded snapshot with an estimated one",
        description="What tests of the report B take more or less than in the report A, and why. Or what was "
        "asked for in one of two snapshots alone (torch.cuda.memory._dump_snapshot): A recorded on a GPU, B "
        "estimated.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("first", type=Path, metavar="A", help="a report.json, or a snapshot from a GPU")
    parser.add_argument("second", type=Path, metavar="B", help="a later report, or an estimated snapshot")
    parser.add_argument("-v", "--verbose", action="store_true", help="reports: list all tests, however many")
    of_snapshots = parser.add_argument_group("snapshots")
    of_snapshots.add_argument("--device", type=int, default=0, help="device of A (default 0)")
    start = "first event: its number, or a text set by torch.cuda.memory._set_memory_metadata"
    of_snapshots.add_argument("--from", dest="start", metavar="EVENT", help=f"{start} (of both)")
    of_snapshots.add_argument("--estimated-from", metavar="EVENT", help="the same of B alone")


def _run(options: argparse.Namespace) -> int:
    of_first, of_second = _kind(options.first), _kind(options.second)
    if of_first != of_second:
        raise UsageMistake(
            f"{options.first} is {of_first} and {options.second} is {of_second}: write two reports, or two "
            "snapshots"
        )
    (_compare_reports if of_first == _REPORT else _compare_snapshots)(options)
    return 0


def _kind(path: Path) -> str:
    """What the file at ``path`` is, by how it begins."""
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
    except OSError as error:
        raise UsageMistake(f"{path}: {error.strerror}; {_write_instead(path)}") from None
    if start.startswith(_PICKLE):
        return _SNAPSHOT
    if start.lstrip().startswith(b"{"):
        return _REPORT
    raise UsageMistake(f"{path}: is neither a report nor a snapshot; {_WRITE}")


def _write_instead(path: Path) -> str:
    report = path / "report.json"
    if report.is_file():
        return f"write {report}"
    if (
        run_git(Path(), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{path}^{{commit}}").code
        == 0
    ):
        return f"it names a commit, which is run: write pytest --membudget --membudget-compare={path}"
    return _WRITE


def _compare_reports(options: argparse.Namespace) -> None:
    from ..comparison.base.sources import StoredReport  # imports pytest
    from ..comparison.comparing import Comparing

    before, now = (base_of_document(read_document(path)) for path in (options.first, options.second))
    comparing = Comparing(StoredReport(str(options.first), before), facts=lambda: now.facts)
    results = [comparing.compare(replace(result, comparison=None)) for result in now.results.values()]
    session = comparing.session(results, is_whole=True, lists_removed=True)
    print_lines(changed_lines(results, terminal_width()))
    for line in table_of(results, session, painted, is_verbose=options.verbose, lists_changes=False):
        print(line)


def _compare_snapshots(options: argparse.Namespace) -> None:
    first = read_snapshot(options.first, options.device)
    second = read_snapshot(options.second)
    if options.start is not None:
        first = window_from(first, options.start, str(options.first))
    own_start = options.estimated_from or options.start
    if own_start is not None:
        second = window_from(second, own_start, str(options.second))
    print_lines(comparison_lines(*sides(first, second)))
