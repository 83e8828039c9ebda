"""From the fields of a script's entry to the program that runs and the budget that it is held to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...budgets.budget import ARGUMENTS, Budget
from ...budgets.marked_test import Program
from ...budgets.marker import check_budget
from ...errors import UsageMistake
from ...user_input.fields import read_fields
from ...user_input.nodes import Mistakes
from ..reading import Entry
from .fields import SCRIPT


def read_program(entry: Entry, folder: Path) -> Program:
    """The program of ``entry``, whose paths begin at ``folder``.

    Raises ``UsageMistake`` with a line for each mistake: file, line and what to write.
    """
    mistakes = Mistakes()
    values = _values(entry)
    words, cwd = values["script"], os.path.normpath(folder / values.get("cwd", ""))
    if not os.path.isdir(cwd):
        mistakes.refuse(entry.fields["cwd"], "cwd", f"there is no folder {cwd}; write its path from {folder}")
    elif words[0] != "-m" and not os.path.exists(os.path.join(cwd, words[0])):
        what = f"there is no {os.path.join(cwd, words[0])}; write the script's path from {cwd}, or set cwd"
        mistakes.refuse(entry.fields["script"], "script", what)
    mistakes.raise_all()
    return Program(words, cwd, values.get("environment", ()))


def read_limits(entry: Entry, defaults: Mapping[str, Any]) -> Budget:
    """The budget of ``entry``; ``defaults`` are those of the settings. Raises ``UsageMistake``."""
    mistakes = Mistakes()
    written = {name: value for name, value in _values(entry).items() if name in ARGUMENTS.by_name}
    budget = Budget(**{**defaults, **written})
    check_budget(budget, {name: entry.fields[name] for name in written}, entry.node, mistakes)
    mistakes.raise_all()
    return budget


def _values(entry: Entry) -> dict[str, Any]:
    mistakes = Mistakes()
    values = read_fields(SCRIPT, entry.fields, entry.node, "", mistakes)
    if entry.mistakes or mistakes:
        raise UsageMistake("\n".join([*entry.mistakes, *mistakes.lines]))
    assert values is not None
    return values
