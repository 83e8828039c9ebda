"""``membudget``: its subcommands and exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from .. import __version__
from ..errors import UsageMistake
from . import diff, histories, report, show

#: Exit status of a command line or a file that cannot be used: argparse's.
UNUSABLE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit status."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except UsageMistake as error:
        print(f"membudget: {error}", file=sys.stderr)
        return UNUSABLE
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; each subcommand sets ``run``, from its options to the exit status."""
    found = argparse.ArgumentParser(prog="membudget", description="GPU-memory budgets for PyTorch tests.")
    found.add_argument("--version", action="version", version=f"pytest-membudget {__version__}")
    commands = found.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for subcommand in (show, diff, report, histories):
        subcommand.add_to(commands)
    return found
