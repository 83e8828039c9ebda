"""Wraps functions without an audit event that look at files, find modules or start processes."""

from __future__ import annotations

import importlib.machinery
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Each takes a path or an open file's number first.
_FUNCTIONS = ("stat", "lstat", "fstat", "access", "readlink", "open")
_SUPPORTS: tuple[set[Any], ...] = (
    os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids
)  # fmt: skip


class Silence(threading.local):
    """Whether the running thread is inside our own code, whose calls are not reported."""

    now = False


class _Probe:
    """A function that reports its arguments; calls inside of it are not reported.

    Not a Python function: like a builtin, it must not be bound when it is an attribute of a class
    (``pathlib`` of Python 3.10 calls ``os.stat`` so).
    """

    def __init__(self, original: Callable[..., Any], report: Callable[..., None], silence: Silence) -> None:
        self._original, self._report, self._silence = original, report, silence
        self.__module__, self.__name__, self.__doc__ = "os", original.__name__, original.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._silence.now:
            return self._original(*args, **kwargs)
        self._report(self.__name__, args, kwargs)
        self._silence.now = True
        try:
            return self._original(*args, **kwargs)
        finally:
            self._silence.now = False

    def __reduce__(self) -> str:
        return self.__name__


def watch_functions(report: Callable[[str, tuple[Any, ...], dict[str, Any]], None], silence: Silence) -> None:
    """``report(name, args, kwargs)`` is called before each call of ``os.stat`` and its like."""
    for name in _FUNCTIONS:
        original = getattr(os, name)
        probe = _Probe(original, report, silence)
        setattr(os, name, probe)
        for supports in _SUPPORTS:
            if original in supports:
                supports.add(probe)
    accessor = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10's own names for these
    if accessor is not None:
        accessor.stat, accessor.readlink = os.stat, os.readlink


def watch_processes(report: Callable[..., None], silence: Silence) -> None:
    """``report`` is called before ``multiprocessing`` starts a process, which has no event."""
    if sys.platform != "win32":
        import _posixsubprocess

        _posixsubprocess.fork_exec = _Probe(_posixsubprocess.fork_exec, report, silence)


def watch_imports(found: Callable[[str, list[str], Any], None]) -> None:
    """``found(name, folders, spec)`` is called after each search in folders, whichever finder makes it."""
    finder: Any = importlib.machinery.PathFinder
    original = finder.find_spec.__func__

    def find_spec(cls: Any, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = original(cls, fullname, path, target)
        found(fullname, list(sys.path if path is None else path), spec)
        return spec

    finder.find_spec = classmethod(find_spec)
