"""What several subcommands do in the terminal: parse numbers, and print lines."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TypeAlias

from ..reporting.terminal.fitting import folded, terminal_width

#: What ``ArgumentParser.add_subparsers`` returns.
Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def at_least_one(text: str) -> int:
    """Parse a whole number from 1 to 10**9."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print ``lines`` as they come, folded to the width of the terminal."""
    for line in folded(lines, terminal_width()):
        print(line, flush=True)
