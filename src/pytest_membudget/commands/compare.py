"""``membudget compare``: two reports, and what differs."""

import argparse
from dataclasses import replace
from pathlib import Path

from ..comparison.base.exchange import Base, base_of_document
from ..comparison.base.git import is_commit
from ..errors import UsageMistake
from ..reporting.document import read_document
from ..reporting.terminal.console import changed_lines
from ..reporting.terminal.fitting import terminal_width
from .terminal import Subcommands, painted, print_lines, table_of


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``compare``."""
    parser = commands.add_parser(
        "compare",
        help="compare two report.json",
        description="What tests of the report B take more or less than in the report A, and why.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("first", type=Path, metavar="A", help="a report.json")
    parser.add_argument("second", type=Path, metavar="B", help="a later one")
    parser.add_argument("-v", "--verbose", action="store_true", help="list all tests, however many")


def _run(options: argparse.Namespace) -> int:
    from ..comparison.base.sources import StoredReport  # imports pytest
    from ..comparison.comparing import Comparing

    before, now = map(_read, (options.first, options.second))
    comparing = Comparing(StoredReport(str(options.first), before), facts=lambda: now.facts)
    results = [comparing.compare(replace(result, comparison=None)) for result in now.results.values()]
    session = comparing.session(results, is_whole=True, lists_removed=True)
    print_lines(changed_lines(results, terminal_width()))
    for line in table_of(results, session, painted, is_verbose=options.verbose, lists_changes=False):
        print(line)
    return 0


def _read(path: Path) -> Base:
    if not path.is_file():
        raise UsageMistake(f"{path} is no file: {_write_instead(path)}")
    return base_of_document(read_document(path))


def _write_instead(path: Path) -> str:
    report = path / "report.json"
    if report.is_file():
        return f"write {report}"
    if is_commit(Path(), str(path)):
        return f"it names a commit, which is run: write pytest --membudget --membudget-compare={path}"
    return "write a report.json, of pytest --membudget --membudget-report=DIR"
