"""What runs of a test do to files: a further run finds what the first found, and the user loses none."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ...cache.paths import is_below, path_of

#: Python's audit events of functions that make what is at one of their arguments, and which of them
#: (docs.python.org/3/library/audit_events.html).
_MAKES = {"open": 0, "os.mkdir": 0, "os.link": 1, "os.rename": 1, "os.symlink": 1}
#: The same of those that overwrite or remove it.
_LOSES = {"open": 0, "os.rename": 1, "os.remove": 0, "shutil.rmtree": 0}
#: Where they have the open folder that the path is relative to.
_FOLDERS = {"os.mkdir": 2, "os.link": 3, "os.rename": 3, "os.symlink": 2, "os.remove": 1, "shutil.rmtree": 1}
_MADE, _KEPT = b"+", b"="
#: Functions of C, which raise no audit events.
_C = ctypes.CDLL(None)


class MadeFiles:
    """The files and folders that runs have made, by test; what was there before is none of them."""

    def __init__(self) -> None:
        self._of: dict[object, set[str]] = {}

    def has_any(self, test: object) -> bool:
        """Whether a run of ``test`` has made any."""
        return bool(self._of.get(test))

    def put_away(self, test: object) -> None:
        """Rename what runs of ``test`` have made: it runs again, and nothing else does."""
        for path in self._of.get(test, ()):
            with contextlib.suppress(OSError):
                os.rename(path, _away(path))

    def end(self, test: object, log: Path) -> None:
        """A run of ``test`` has ended, which was recorded in ``log``: put back what it has overwritten.

        And what was put away; then nothing stays of what the run has made.
        """
        earlier = self._of.setdefault(test, set())
        away = {path for path in earlier if os.path.lexists(_away(path))}
        logged = log.read_bytes().split(b"\0") if log.exists() else []
        kept = {os.fsdecode(line[1:]) for line in logged if line.startswith(_KEPT)}
        made = {os.fsdecode(line[1:]) for line in logged if line.startswith(_MADE)}
        made = {path for path in made if os.path.lexists(path) and not is_below(path, kept)}
        if away:
            for path in made - earlier:
                _remove(path)
        else:
            earlier |= {path for path in made if not is_below(os.path.dirname(path), made | earlier)}
        for path in away | kept:
            _remove(path)
            with contextlib.suppress(OSError):
                os.rename(_away(path), path)


@contextlib.contextmanager
def recording(log: Path, folders: Collection[str]) -> Iterator[None]:
    """Append to ``log`` what this process and its children make below ``folders``, and what of it they lose.

    By Python's functions, and what reports itself as ``open`` does; not bytecode. What would be overwritten
    or removed is renamed. Not seen is what native code does, or who appends to a file.
    """
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made: set[str] = set()
    is_recording = True

    def write(kind: bytes, path: str) -> None:
        made.add(path)
        os.write(opened, kind + os.fsencode(path) + b"\0")

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if not is_recording or not (event in _MAKES or event in _LOSES):
            return
        if event == "open" and not given[2] & os.O_CREAT:
            return
        with contextlib.suppress(Exception):  # it must not fail the test
            which, place = _MAKES.get(event, 0), _FOLDERS.get(event)
            path = path_of(given[which], given[place] if place is not None else None)
            if path is None or "__pycache__" in path or not is_below(path, folders) or is_below(path, made):
                return
            source = path_of(given[0], given[2]) if event == "os.rename" else None
            if source is not None and is_below(source, folders) and not is_below(source, made):
                if not _keep(event, source):
                    return  # a folder of the user's that gets another name
                write(_KEPT, source)
            if not os.path.lexists(path):
                if event in _MAKES:
                    write(_MADE, path)
            elif event in _LOSES and (event != "open" or given[2] & os.O_TRUNC) and _keep(event, path):
                write(_KEPT, path)

    sys.addaudithook(hook)
    try:
        yield
    finally:
        is_recording = False


def _keep(event: str, path: str) -> bool:
    """Whether what ``event`` does to ``path`` is now done to something else; another run may have kept it."""
    found, old, new = os.lstat(path), os.fsencode(path), os.fsencode(_away(path))
    if os.path.lexists(new):
        return False
    if event == "shutil.rmtree":
        return stat.S_ISDIR(found.st_mode) and not _C.rename(old, new) and not _C.mkdir(old, found.st_mode)
    if not stat.S_ISREG(found.st_mode) or not found.st_size:  # an empty file may be a lock
        return False
    does = _C.rename if event == "open" else _C.link
    return not does(old, new)


class FolderLock:
    """Of a folder in which tests run, in any process: next to others, or one alone that renames files."""

    def __init__(self, opened: int) -> None:
        self._opened = opened

    def take(self, *, alone: bool) -> bool:
        """Whether it is taken; what cannot be locked is."""
        try:
            fcntl.flock(self._opened, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def release(self) -> None:
        """No test of this process runs."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._opened, fcntl.LOCK_UN)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[FolderLock]:
    """The lock of ``folder``."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield FolderLock(opened)
    finally:
        os.close(opened)


def _away(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.membudget")


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
