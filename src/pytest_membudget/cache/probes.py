"""Reports what has no audit event: looks at files, searches for modules, new processes, variables read."""

from __future__ import annotations

import _posixsubprocess
import importlib.machinery
import os
import pathlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .callers import LIBRARY, PYTEST, Callers

#: Each takes a path or an open file's number first.
_FUNCTIONS = ("stat", "lstat", "fstat", "access", "readlink", "open")
_SUPPORTS: tuple[set[Any], ...] = (
    os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids
)  # fmt: skip
#: Variables that differ in every run or process, set by pytest and its plugins.
_EVERY_TIME = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_")
#: Variables of this plugin: the cache's folder, and the checkout that a session is the base of.
SAYS_NOTHING = ("MEMBUDGET_CACHE_", "MEMBUDGET_FOREIGN_IMPORTS")
_NOT_NOTED = (*_EVERY_TIME, *SAYS_NOTHING)
_QUOTED = re.compile(r"""["']([^\W\d]\w*)(?=["'])""")
#: Bytes of an instruction or of an entry of its cache, in Python's bytecode.
_CODE_UNIT = 2


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


class WatchedEnvironment(os._Environ):  # type: ignore[type-arg]
    """``os.environ``, or ``os.environb``, that records the names that are read.

    Copying all of it reads each name, except if a library does it, to pass it on.
    """

    _callers: Callers
    _read: dict[str, None]
    _walk: tuple[int, int] | None
    _was_unwatched: bool

    def __getitem__(self, key: Any) -> Any:
        name = os.fsdecode(key) if isinstance(key, (str, bytes)) else ""
        if name and name not in self._read and not name.startswith(_NOT_NOTED):
            self._note(name)
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        self._walk = None
        if self._callers.kind() in (LIBRARY, PYTEST):
            self._walk = _place(self._callers.frame())
        return super().__iter__()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """A context with Python's own ``os.environ``: unrecorded, so all names in sources count as read."""
        self._was_unwatched = True
        watched = self.__class__
        self.__class__ = os._Environ  # type: ignore[assignment]
        try:
            yield
        finally:
            self.__class__ = watched

    def _note(self, key: str) -> None:
        if self._callers.kind() == PYTEST:
            return
        if self._walk is None or not _is_same(self._walk, _place(self._callers.frame())):
            self._read[key] = None


def _place(frame: FrameType | None) -> tuple[int, int]:
    return (id(frame), frame.f_lasti) if frame is not None else (0, 0)


def _is_same(walk: tuple[int, int], place: tuple[int, int]) -> bool:
    """Python 3.12 has a loop over a generator at the loop's cache (2 bytes on) once it has specialised it."""
    return walk[0] == place[0] and abs(walk[1] - place[1]) <= _CODE_UNIT


def watch_environment(callers: Callers) -> dict[str, None]:
    """Make ``os.environ`` record the names that are read, in the returned object."""
    read: dict[str, None] = {}
    for environment in (os.environ, *([os.environb] if os.supports_bytes_environ else [])):
        environment.__class__ = WatchedEnvironment
        vars(environment).update(_callers=callers, _read=read, _walk=None, _was_unwatched=False)
    return read


def was_unwatched() -> bool:
    """Whether variables may have been read without being recorded."""
    return bool(vars(os.environ).get("_was_unwatched"))


def names_in(source: str) -> list[str]:
    """Names that a module's source may read: its quoted words, if it reads any variable."""
    return _QUOTED.findall(source) if "environ" in source or "getenv" in source else []
