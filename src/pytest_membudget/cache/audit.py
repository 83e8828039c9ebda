"""Audit events for what Python has none: looks at paths, new processes."""

import _posixsubprocess
import os
import pathlib
import posix
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any

#: The events; the arguments are the function's name, its arguments and its keywords.
LOOK, START = "membudget.look", "multiprocessing"
#: The ends of files that Python imports; of bytecode, the source is looked for too.
CODE = (".py", ".so")
#: Programs that say what the machine is, as ``platform`` does, which is not followed either.
OF_MACHINE = ("arch", "hostname", "ldconfig", "lscpu", "lspci", "nproc", "nvidia-smi", "uname")
#: What a shell only splits.
_PLAIN = re.compile(r"([\w ./:,+@%=-]|(?P<quote>[\"'])[\w ./:,+@%=-]*(?P=quote))*")
#: Each takes a path or an open file's number first.
_FUNCTIONS = ("stat", "lstat", "fstat", "access", "readlink", "open")
_SUPPORTS: tuple[set[Any], ...] = (
    os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids
)  # fmt: skip


class _Audited:
    """A function that raises an event before it is called; of Python's own imports for files of code alone.

    Not a Python function: like a builtin, it must not be bound when it is an attribute of a class
    (``pathlib`` of Python 3.10 calls ``os.stat`` so).
    """

    def __init__(self, event: str, original: Callable[..., Any]) -> None:
        self._event, self._original = event, original
        self.__module__, self.__name__, self.__doc__ = "os", original.__name__, original.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename
        if not file.startswith("<frozen importlib") or str(args[0]).endswith(CODE):
            sys.audit(self._event, self.__name__, args, kwargs)
        return self._original(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


def raise_more_events() -> None:
    """Make the functions of ``os`` and ``multiprocessing`` raise the events, from now on."""
    if isinstance(os.stat, _Audited):
        return
    for name in _FUNCTIONS:
        original = getattr(os, name)
        audited = _Audited(LOOK, original)
        for module in (os, posix):
            setattr(module, name, audited)
        for supports in _SUPPORTS:
            if original in supports:
                supports.add(audited)
    accessor = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10's own names for these
    if accessor is not None:
        accessor.stat, accessor.readlink = os.stat, os.readlink
    _posixsubprocess.fork_exec = _Audited(START, _posixsubprocess.fork_exec)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, of ``os``, without its event."""
    return function._original if isinstance(function, _Audited) else function


def words_of(given: Any) -> list[str]:
    """The words of the command ``given`` to ``subprocess``; empty if a shell does more than split them."""
    words: list[str] = list(map(os.fsdecode, [given] if isinstance(given, (str, bytes)) else given))
    if len(words) == 3 and words[:2] == ["/bin/sh", "-c"]:
        return shlex.split(words[2]) if _PLAIN.fullmatch(words[2]) else []
    return words
