"""Runs a program as ``python`` does: as ``__main__``, with its arguments, next to its own modules."""

from __future__ import annotations

import os
import runpy
import sys

from ...budgets.marked_test import Program


class ScriptExit(Exception):  # noqa: N818 - named as SystemExit is
    """The program has ended itself with an exit status that is not 0."""


def run_program(program: Program) -> None:
    """Run ``program`` in this process; its environment is the process's already.

    ``sys.exit(0)`` is a good end. Raises ``ScriptExit`` after another status, and what the program raises.
    """
    os.chdir(program.cwd)
    is_module = program.words[0] == "-m"
    name, *arguments = program.words[1:] if is_module else program.words
    path = os.path.abspath(name)
    folder = program.cwd if is_module else os.path.dirname(path)
    _forget_namesakes(folder)
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


def _forget_namesakes(folder: str) -> None:
    """Test files may have imported another ``model`` than the ``model.py`` next to the script."""
    from ...tracking.running_code.source import users_source

    source = users_source()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = os.path.join(folder, name.partition(".")[0])
        if file is None or name == "__main__" or not source.is_users(file):
            continue
        if os.path.exists(f"{own}.py") or os.path.isdir(own):
            del sys.modules[name]
