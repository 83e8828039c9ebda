"""``membudget``: its subcommands and exit status."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from .. import __version__
from ..errors import UsageMistake
from ..reporting.terminal.fitting import folded, terminal_width
from . import bisect, compare, fit, install_torch, report

#: Exit status of a command line or a file that cannot be used: argparse's.
UNUSABLE: Final = 2
#: As a shell has it after Ctrl-C.
INTERRUPTED: Final = 130
#: As a shell has it after a signal for a closed pipe (128 + SIGPIPE).
PIPE_CLOSED: Final = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be text
        sys.stdout.reconfigure(errors="backslashreplace")
    # argparse would mix what follows the first -- with its own
    place = given.index("--") if "--" in given else len(given)
    pytest_arguments = list(given[place + 1 :])
    options = parser().parse_args(given[:place], argparse.Namespace(pytest_arguments=pytest_arguments))
    if pytest_arguments and "runs_pytest" not in options:
        parser().error(f"{options.command} runs no pytest: nothing can follow --")
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # ``membudget report report.json | head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it when it ends
        return PIPE_CLOSED
    except UsageMistake as error:
        for line in folded([f"membudget: {error}"], terminal_width()):
            print(line, file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("membudget: interrupted", file=sys.stderr)
        return INTERRUPTED
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; each subcommand sets ``run``, from its options to the exit status."""
    found = argparse.ArgumentParser(prog="membudget", description="GPU-memory budgets for PyTorch tests.")
    found.add_argument("--version", action="version", version=f"pytest-membudget {__version__}")
    commands = found.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for subcommand in (report, compare, fit, bisect, install_torch):
        subcommand.add_to(commands)
    return found
