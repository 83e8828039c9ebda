"""Makes the answer for a test that raised: skipped, out of memory, or an error with what to write."""

import ast
import linecache
import os
import re
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
import torch

from ....budgets.verdict import OUT_OF_MEMORY, SKIPPED
from ....devices.torch_build.installed import COMMAND, cpu_builds
from ....errors import MembudgetError
from ....results.answer import Answer, failed
from ....tracking.running_code.source import innermost, users_source

#: Calls of a traceback that are reported, the innermost.
_CALLS = 12
#: Most lines of an exception's text that are reported: torch lists every kernel.
_LINES = 12
#: Most characters of a line that are reported: a message may contain a whole tensor.
_LENGTH = 1000
#: The beginning of PyTorch's general advice (c10/cuda/CUDACachingAllocator.cpp, 2.11 to 2.15).
_GENERAL_ADVICE = "If reserved but unallocated memory is large"
#: What an operator without a kernel for CUDA raises (aten/src/ATen/core/dispatch/OperatorEntry.cpp, 2.13).
_NO_KERNEL = re.compile(r"Could not run '(\w+)::\w+(?:\.\w+)?' with arguments from the 'CUDA' backend")
#: What a terminal is sent for colours and bold text: as ``torch.load`` writes its advice (2.13).
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: What torchrun sets (torch/distributed/run.py, 2.15).
_LAUNCHERS = re.compile("(LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT)")
#: Packages whose frames are not shown to users.
_HIDDEN = ("torch", "pytest_membudget", "_pytest", "pluggy", "runpy", "threading", "unittest")


def explain(
    item: pytest.Item, when: str, excinfo: pytest.ExceptionInfo[BaseException], device: str
) -> Answer:
    """The answer for a phase that raised: skipped, out of memory, or an error with place and remedy.

    ``device``: the device's name in messages.
    """
    error = excinfo.value
    if isinstance(error, pytest.skip.Exception):
        return Answer(SKIPPED, str(error.msg))
    if isinstance(error, pytest.xfail.Exception):
        return Answer(SKIPPED, f"xfail: {error.msg}" if error.msg else "xfail")
    if isinstance(error, torch.OutOfMemoryError):
        return _out_of_memory(item, excinfo)
    where = _place(item, excinfo)
    what = f"{type(error).__name__} in {when} at {where} on {device}: {_one_line(item, excinfo)}"
    remedy = _remedy(error)
    details = _user_traceback(item, excinfo)
    raised = not isinstance(error, MembudgetError)  # not the test's, so an xfail mark does not expect it
    return failed(f"{what}{remedy}", details=details, raised=raised)


def _out_of_memory(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> Answer:
    """The answer for a test that runs out of memory, at the innermost line of the user's own code."""
    where = _users_place(item, excinfo) or _place(item, excinfo)
    # PyTorch's general advice follows; ours depends on what holds the memory
    reason = str(excinfo.value).partition(_GENERAL_ADVICE)[0].strip()
    return Answer(OUT_OF_MEMORY, reason, "\n".join(_calls(item, excinfo)), where)


def _remedy(error: BaseException) -> str:
    if _asks_for_a_launcher(error):
        return (
            "\nA launcher such as torchrun sets RANK, LOCAL_RANK and WORLD_SIZE. Write gpus=1 in the mark, "
            "or gpus: 1 in the script's entry, and they are set, as torchrun --nproc_per_node=1 does."
        )
    if type(error).__name__ == "TritonMissing":  # torch/_inductor/exc.py, 2.11 to 2.15
        return (
            f"\nRun `{COMMAND} --with triton` where the environment's torch is a CPU build, else "
            "`pip install triton`."
        )
    # a package that the environment has as a CPU build
    found = _NO_KERNEL.search(str(error)) if isinstance(error, NotImplementedError) else None
    if found is None or found[1] not in cpu_builds():
        return ""
    return f"\nThe environment's {found[1]} is a CPU build: run `{COMMAND} --with {found[1]}`."


def _asks_for_a_launcher(error: BaseException) -> bool:
    """Whether a variable of torchrun is missing, in ``os.environ`` or for ``init_process_group``."""
    if isinstance(error, KeyError) and error.args:
        name = str(error.args[0])
        return _LAUNCHERS.fullmatch(name) is not None and name not in os.environ
    # torch/distributed/rendezvous.py, _env_rendezvous_handler, 2.11 to 2.15
    return isinstance(error, ValueError) and "environment variable" in str(error) and "expected" in str(error)


def _one_line(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The first line of the exception's text; for a doctest, whose text begins with its source, the last."""
    lines = _words(item, excinfo).splitlines() or [excinfo.type.__name__]
    return _cut(lines[-1] if _has_own_words(item) else lines[0])


def _words(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The exception's text as pytest prints it, without colours."""
    return _COLOUR.sub("", _coloured_words(item, excinfo)).strip()


def _coloured_words(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The text itself; the exception's code may raise here."""
    error = excinfo.value
    try:
        if isinstance(error, pytest.FixtureLookupError):  # its text is a tuple of its arguments
            return str(error.formatrepr().errorstring)
        if _has_own_words(item):
            return str(item.repr_failure(excinfo)).strip() or str(error)
        return str(error)
    except Exception as trouble:
        return f"(its text cannot be had: {type(trouble).__name__})"


def _has_own_words(item: pytest.Item) -> bool:
    """Whether it says itself what an exception means: a doctest, or what a conftest collects."""
    return not isinstance(item, pytest.Function) and type(item).repr_failure is not pytest.Item.repr_failure


def _place(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The innermost line of the traceback in the test's own file, else the test's first line.

    What is no function has no code in its file: a script's is the innermost line of the user's own.
    """
    for entry in reversed(list(excinfo.traceback)):
        if str(entry.path) == str(item.path):
            return _place_of(item, entry)
    path, line, _ = item.location
    users = "" if isinstance(item, pytest.Function) else _users_place(item, excinfo)
    return users or f"{path}:{(line or 0) + 1}"


def _users_place(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The innermost line of the user's own code; empty if there is none."""
    source = users_source()
    entries = [entry for entry in excinfo.traceback if source.is_users(str(entry.path))]
    return _place_of(item, entries[-1]) if entries else ""


def _place_of(item: pytest.Item, entry: Any) -> str:
    path = str(entry.path).removeprefix(f"{item.config.rootpath}{os.sep}")
    return f"{path}:{entry.lineno + 1}"


def _user_traceback(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The calls in the user's code and libraries, and the exception's text."""
    error_lines = f"{excinfo.type.__name__}: {_words(item, excinfo)}".splitlines()
    left_out = [f"(and {len(error_lines) - _LINES} lines more)"] if len(error_lines) > _LINES else []
    return "\n".join([*_calls(item, excinfo), *map(_cut, error_lines[:_LINES]), *left_out])


def _calls(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> list[str]:
    """The calls in the user's code and libraries, without torch, pytest and this package."""
    names = ((entry, entry.frame.f_globals.get("__name__", "")) for entry in reversed(excinfo.traceback))
    users = (entry for entry, name in names if name.partition(".")[0] not in _HIDDEN)
    # reading the source of thousands of calls takes seconds
    shown = [*islice(users, _CALLS)][::-1]
    return [f"  {_place_of(item, entry)} in {entry.name}\n    {_statement(entry)}" for entry in shown]


def _cut(line: str) -> str:
    return line if len(line) <= _LENGTH else f"{line[:_LENGTH]} (and {len(line) - _LENGTH} characters more)"


def _statement(entry: Any) -> str:
    """The first line of ``entry``'s statement; empty without source, for code made in memory."""
    # pytest's own search looks for the files of all modules, which takes a second
    lines = linecache.getlines(str(entry.path), entry.frame.f_globals)
    number = entry.lineno + 1
    with suppress(SyntaxError, ValueError):
        statement = innermost(ast.parse("".join(lines)), number, (ast.stmt,))
        number = statement.lineno if statement is not None else number
    return lines[number - 1].strip() if number <= len(lines) else ""
