"""Audit events for what Python has none: looks at paths, searches for modules, new processes."""

from __future__ import annotations

import _posixsubprocess
import importlib.machinery
import os
import pathlib
import posix
import sys
from collections.abc import Callable
from typing import Any

#: The events; the arguments are the name of the function, its arguments and its keywords.
LOOK, START = "membudget.look", "membudget.start"
#: Its arguments are the module's name, the folders that were searched, and whether it was found there.
SEARCH = "membudget.search"
#: Each takes a path or an open file's number first.
_FUNCTIONS = ("stat", "lstat", "fstat", "access", "readlink", "open")
_SUPPORTS: tuple[set[Any], ...] = (
    os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids
)  # fmt: skip


class _Audited:
    """A function that raises an event before it is called; not for Python's own imports.

    Not a Python function: like a builtin, it must not be bound when it is an attribute of a class
    (``pathlib`` of Python 3.10 calls ``os.stat`` so).
    """

    def __init__(self, event: str, original: Callable[..., Any]) -> None:
        self._event, self._original = event, original
        self.__module__, self.__name__, self.__doc__ = "os", original.__name__, original.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
            sys.audit(self._event, self.__name__, args, kwargs)
        return self._original(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


def raise_more_events() -> None:
    """Make the functions of ``os``, imports and ``multiprocessing`` raise the events, from now on."""
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
    finder: Any = importlib.machinery.PathFinder
    find = finder.find_spec.__func__

    def find_spec(cls: Any, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = find(cls, fullname, path, target)
        is_found = spec is not None and spec.loader is not None
        sys.audit(SEARCH, fullname, list(sys.path if path is None else path), is_found)
        return spec

    finder.find_spec = classmethod(find_spec)
