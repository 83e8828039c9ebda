"""What runs of a test make in its folders: a further run must not find it, as the first did not."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ...cache.paths import is_below, path_of

#: Python's audit events of functions that make what is at one of their arguments, and which of them
#: (docs.python.org/3/library/audit_events.html).
_MAKES = {"open": 0, "os.mkdir": 0, "os.link": 1, "os.rename": 1, "os.symlink": 1}
#: Where those have the open folder that the path is relative to.
_FOLDERS = {"os.mkdir": 2, "os.link": 3, "os.rename": 3, "os.symlink": 2}


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
        """A run of ``test`` has ended, which was recorded in ``log``; what was put away is put back.

        Then nothing stays of what the run has made.
        """
        earlier = self._of.setdefault(test, set())
        logged = log.read_bytes() if log.exists() else b""
        made = {path for path in os.fsdecode(logged).split("\0")[:-1] if os.path.lexists(path)}
        away = [path for path in earlier if os.path.lexists(_away(path))]
        if not away:
            earlier |= {path for path in made if not is_below(os.path.dirname(path), made | earlier)}
            return
        for path in {*away, *made - earlier}:
            _remove(path)
        for path in away:
            with contextlib.suppress(OSError):
                os.rename(_away(path), path)


@contextlib.contextmanager
def recording(log: Path, folders: Collection[str]) -> Iterator[None]:
    """Append to ``log`` what this process and its children make below ``folders``, a null after each path.

    By Python's functions, and what reports itself as ``open`` does; bytecode is left out.
    """
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    is_recording = True

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if is_recording and event in _MAKES and (event != "open" or given[2] & os.O_CREAT):
            with contextlib.suppress(Exception):  # it must not fail the test
                place = _FOLDERS.get(event)
                path = path_of(given[_MAKES[event]], given[place] if place is not None else None)
                is_users = path is not None and "__pycache__" not in path and is_below(path, folders)
                if path is not None and is_users and not os.path.lexists(path):
                    os.write(opened, os.fsencode(path) + b"\0")

    sys.addaudithook(hook)
    try:
        yield
    finally:
        is_recording = False


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
