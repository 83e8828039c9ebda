"""Arguments that several subcommands have."""

from __future__ import annotations

import argparse
from typing import TypeAlias

#: What ``ArgumentParser.add_subparsers`` returns.
Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def at_least_one(text: str) -> int:
    """Parse a whole number from 1 to 10**9."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
