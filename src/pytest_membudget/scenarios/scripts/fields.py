"""The fields of an entry with ``script:``: the command line, where it runs, and the marker's arguments."""

from __future__ import annotations

import shlex
from typing import Any, Final

from ...budgets.budget import ARGUMENTS
from ...user_input.fields import Field, Table
from ...user_input.kinds import is_text, parsed, text
from ..parts import NAME

_EXAMPLE: Final = "as in script: train.py --batch_size=12"
#: What starts a script in a shell.
_STARTERS: Final = ("python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun", "srun")


def _command(written: Any) -> tuple[str, ...]:
    if not is_text(written):
        raise ValueError(f"write a script and its arguments, {_EXAMPLE}")
    try:
        words = tuple(shlex.split(written))
    except ValueError as error:
        raise ValueError(f"{error}; write it as for a shell, {_EXAMPLE}") from None
    if words[0] in _STARTERS:
        ranks = "" if words[0].startswith("python") else "; how many ranks there are is gpus:"
        raise ValueError(f"write the script without {words[0]}, {_EXAMPLE}{ranks}")
    if words == ("-m",):
        raise ValueError("write a module, as in script: -m package.train --batch_size=12")
    return words


def _variables(written: Any) -> tuple[tuple[str, str], ...]:
    example = "as in environment: {WANDB_MODE: disabled}"
    if not isinstance(written, dict):
        raise ValueError(f"write a table of variables, {example}")
    for name, value in written.items():
        if type(value) not in (str, int, float):
            raise ValueError(f"{name} is no text; write its value in quotes, {example}")
    return tuple(sorted((name, str(value)) for name, value in written.items()))


SCRIPT: Final = Table(
    (
        NAME,
        Field(
            "script",
            parsed("command line", _command),
            "A Python script and its arguments, split as a shell does, or `-m` and a module. It runs as it "
            "is, as `__main__`.",
            required=True,
        ),
        Field(
            "cwd",
            text("nanoGPT"),
            "The folder that it runs in, from this file. The script's path begins there.",
            "this file's folder",
        ),
        Field(
            "environment",
            parsed("table of texts", _variables, {"type": "object"}),
            "Environment variables, added to the session's: `{WANDB_MODE: disabled}`.",
        ),
        *ARGUMENTS.fields,
    ),
    also_called={
        **ARGUMENTS.also_called,
        "cwd": "folder directory working_dir workdir",
        "environment": "env variables",
    },
)
"""One test: an entry with ``script:`` whose grid is expanded."""
