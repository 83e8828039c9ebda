"""The script of an entry: its program and budget, and how the program runs, as ``python`` runs it."""

import logging
import os
import runpy
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..budgets.budget import ARGUMENTS, Budget
from ..budgets.marked_test import Program
from ..budgets.marker import check_budget
from ..errors import UsageMistake
from ..user_input.fields import read_fields
from ..user_input.nodes import Mistakes
from .reading import Entry
from .schema import SCRIPT


def read_script(entry: Entry, folder: Path, defaults: Mapping[str, Any]) -> tuple[Program, Budget]:
    """The program of ``entry``, whose paths begin at ``folder``, and its budget.

    ``defaults`` are those of the settings. Raises ``UsageMistake`` with a line for each mistake: file, line
    and what to write.
    """
    mistakes = Mistakes()
    values = read_fields(SCRIPT, entry.fields, entry.node, "", mistakes)
    if entry.mistakes or values is None:
        raise UsageMistake("\n".join([*entry.mistakes, *mistakes.lines]))
    program = _program(entry, values, folder, mistakes)
    own = {name: value for name, value in values.items() if name in ARGUMENTS.by_name}
    budget = Budget(**{**defaults, **own})
    check_budget(budget, entry.fields, entry.node, mistakes)
    mistakes.raise_all()
    return program, budget


def _program(entry: Entry, values: Mapping[str, Any], folder: Path, mistakes: Mistakes) -> Program:
    words, cwd = values["script"], os.path.normpath(folder / values.get("cwd", ""))
    command = os.path.join(os.path.dirname(sys.executable), words[0])
    if not os.path.exists(os.path.join(cwd, words[0])) and os.path.isfile(command):
        words = (command, *words[1:])
    if not os.path.isdir(cwd):
        mistakes.refuse(entry.fields["cwd"], "cwd", f"there is no folder {cwd}; write its path from {folder}")
    elif words[0] != "-m" and not os.path.exists(os.path.join(cwd, words[0])):
        what = f"there is no {os.path.join(cwd, words[0])}; write the script's path from {cwd}, or set cwd"
        mistakes.refuse(entry.fields["script"], "script", what)
    outputs = tuple(os.path.normpath(os.path.join(cwd, output)) for output in values.get("outputs", ()))
    return Program(words, cwd, values.get("environment", ()), outputs)


class ScriptExit(Exception):  # noqa: N818 - named as SystemExit is
    """The program has ended itself with an exit status that is not 0."""


def run_program(program: Program) -> None:
    """Run ``program`` in this process, next to its own modules; its environment is the process's already.

    ``sys.exit(0)`` is a good end. Raises ``ScriptExit`` after another status, and what the program raises.
    """
    os.chdir(program.cwd)
    is_module = program.words[0] == "-m"
    name, *arguments = program.words[1:] if is_module else program.words
    path = os.path.abspath(name)
    folder = program.cwd if is_module else os.path.dirname(path)
    _forget_namesakes(folder)
    # pytest's hook rewrites assertions of tests and plugins, and has no code of them for runpy
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "mark_rewrite")]
    _reset_warnings()
    logging.root.handlers.clear()  # pytest's, which keep records, and what was logged in them
    sys.path.insert(0, folder)
    sys.argv = [name if is_module else path, *arguments]
    try:
        if is_module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            status = end.code if isinstance(end.code, int) else f"1: {end.code}"
            raise ScriptExit(f"exit status {status}").with_traceback(end.__traceback__) from None


def _reset_warnings() -> None:
    """Filter warnings as Python itself does (``init_filters``, Python/_warnings.c): pytest has others."""
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")


def _forget_namesakes(folder: str) -> None:
    """Test files may have imported another ``model`` than the ``model.py`` next to the script."""
    from ..tracking.running_code.source import users_source

    source = users_source()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = os.path.join(folder, name.partition(".")[0])
        if file is None or name == "__main__" or not source.is_users(file):
            continue
        if os.path.exists(f"{own}.py") or os.path.isdir(own):
            del sys.modules[name]
