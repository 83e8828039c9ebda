"""What runs of a test do to files: each run and each session finds the same, and the user loses none."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import dropwhile
from pathlib import Path
from typing import Any, Final

from ...cache.paths import is_below, path_of
from ...devices.stand_in.saving.unknown_files import has_unknown_values

#: Python's audit events of functions that make what is at one of their arguments, and which of them
#: (docs.python.org/3/library/audit_events.html).
_MAKES = {"open": 0, "os.mkdir": 0, "os.link": 1, "os.rename": 1, "os.symlink": 1}
#: The same of those that overwrite or remove it.
_LOSES = {"open": 0, "os.rename": 1, "os.remove": 0, "shutil.rmtree": 0}
#: Where they have the open folder that the path is relative to.
_FOLDERS = {"os.mkdir": 2, "os.link": 3, "os.rename": 3, "os.symlink": 2, "os.remove": 1, "shutil.rmtree": 1}
_MADE, _KEPT, _NETWORK = b"+", b"=", b"@"
#: How the addresses of this machine begin, which are no network's.
_LOOPBACK = ("localhost", "127.", "::1")
#: Seconds after which others, as a process that a killed session has left, no longer keep a test waiting.
_PATIENCE: Final = 600.0
#: Functions of C, which raise no audit events.
_C = ctypes.CDLL(None)


class MadeFiles:
    """The files and folders that runs of a test have made below the folders of a session."""

    def __init__(self, *folders: str, besides: Iterable[str] = (), is_shared: bool = False) -> None:
        """``besides``: folders in these that are not the test's. ``is_shared``: other ranks may read them."""
        self._folders, self._besides = frozenset(folders), frozenset(besides)
        self.is_shared = is_shared
        self._made: set[str] = set()
        #: what each file was when the run that had made it ended
        self._states: dict[str, tuple[int, ...]] = {}
        #: of other ranks, which ran before
        self._others: list[MadeFiles] = []
        #: those made from the first checkpoint on: a rank that runs later would resume from it
        self.resumable: set[str] = set()
        #: of the last run, which may go on
        self.log = Path(os.devnull)

    def write(self, record: Path) -> None:
        """Leave in ``record`` what processes have to know that run the test's other ranks."""
        states = [(path, *state) for path, state in self._states.items()]
        with contextlib.suppress(OSError):
            record.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps([[*self._made], states, [*self.resumable]]), encoding="utf-8")

    def read(self, record: Path) -> MadeFiles:
        """Itself, with what another process has left in ``record``, if one has."""
        with contextlib.suppress(OSError, ValueError):
            made, states, resumable = json.loads(record.read_text(encoding="utf-8"))
            self._made, self.resumable = {*made}, {*resumable}
            self._states = {path: (*state,) for path, *state in states}
        return self

    @property
    def has_saved(self) -> bool:
        """Whether a run that has ended, or goes on, has saved a checkpoint."""
        return bool(self.resumable) or any(map(_is_checkpoint, _logged(self.log)[_MADE]))

    @property
    def has_any(self) -> bool:
        """Whether there are any."""
        return bool(self._made)

    def put_away(self, others: Iterable[MadeFiles] = ()) -> None:
        """Rename them: the test runs again, and nothing else does. Of ``others`` what is ``resumable``."""
        self._others = [*others]
        for path in [*self._made, *self._hidden]:
            with contextlib.suppress(OSError):
                os.rename(path, self._away(path))

    @property
    def _hidden(self) -> Iterator[str]:
        return (path for other in self._others for path in sorted(other.resumable))

    def _show(self) -> None:
        """Put back what others have made."""
        for path in self._hidden:
            if os.path.lexists(self._away(path)):
                _merge(self._away(path), path)

    def _opens(self, path: Any) -> None:
        """Who reads what another rank has saved knows that it is there."""
        hidden = {*self._hidden}
        with contextlib.suppress(Exception):
            if hidden and is_below(_place_of(path, None) or os.devnull, hidden):
                self._show()

    def end(self, log: Path) -> None:
        """A run has ended, which was recorded in ``log``: put back what it has overwritten.

        And what was put away; then nothing stays of what the run has made, but what it may have downloaded.
        """
        self._show()
        away = {path for path in self._made if os.path.lexists(self._away(path))}
        logged = _logged(log)
        kept, listed = {*logged[_KEPT]}, logged[_MADE]
        others = {path for other in self._others for path in other._states}
        made = {path for path in listed if os.path.lexists(path) and not is_below(path, kept)}
        made = {path for each in made for path in _with_all_below(each) if self._is_below(path)} - others
        if self.is_shared and not away:
            saved = _without_downloads(made)
            self.resumable = saved | (made & {*dropwhile(lambda path: path not in saved, listed)})
        if logged[_NETWORK]:
            made = _without_downloads(made)
        if away:
            for path in made - self._made:
                _remove(path)
        else:
            earlier = made | self._made
            self._made |= {path for path in made if not is_below(os.path.dirname(path), earlier)}
            self._states |= {path: _state(self._place(path)) for path in made}
        for path in sorted(away | kept):
            if os.path.lexists(self._away(path)):
                _remove(path)
                with contextlib.suppress(OSError):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    os.rename(self._away(path), path)

    def remove(self) -> None:
        """Remove them, but what others have changed or added to."""
        for path in sorted(self._made, reverse=True):
            if os.path.isdir(path) and not os.path.islink(path):
                self._remove_folder(path)
            elif self._is_as_made(path):
                _remove(path)
        self._made = set(filter(os.path.lexists, self._made))

    def _remove_folder(self, path: str) -> None:
        """A folder with other files than those that were made keeps all: half a checkpoint is none."""
        with contextlib.suppress(OSError):
            with os.scandir(path) as entries:
                below = {entry.path: entry.is_dir(follow_symlinks=False) for entry in entries}
            for folder in (each for each, is_folder in below.items() if is_folder and each in self._states):
                self._remove_folder(folder)
            files = [each for each, is_folder in below.items() if not is_folder]
            if all(map(self._is_as_made, files)):
                for file in files:
                    _remove(file)
                os.rmdir(path)

    def _is_as_made(self, path: str) -> bool:
        return os.path.lexists(path) and self._states.get(path) == _state(path)

    @contextlib.contextmanager
    def recording(self, log: Path) -> Iterator[None]:
        """Append to ``log`` what this process and its children make, and what of the user's they would lose.

        By Python's functions, and what reports itself as ``open`` does; not bytecode. What would be
        overwritten or removed is renamed. Not seen is what native code does elsewhere than in a folder that
        was made, or who appends to a file.
        """
        log.touch()
        done: set[str] = set()
        is_recording = True

        def hook(event: str, given: tuple[Any, ...]) -> None:
            if is_recording and event == "socket.connect" and _is_network(given[1]):
                with contextlib.suppress(Exception), open(log, "ab") as file:
                    file.write(_NETWORK + b"\0")
            if is_recording and event == "open" and not given[2] & os.O_CREAT:
                self._opens(given[0])
            is_one = is_recording and (event in _MAKES or event in _LOSES)
            if is_one and (event != "open" or given[2] & os.O_CREAT):
                with contextlib.suppress(Exception):  # it must not fail the test
                    for kind, path in self._happens(event, given, done):
                        done.add(path)
                        with open(log, "ab") as file:  # not kept open: tests close what they did not open
                            file.write(kind + os.fsencode(path) + b"\0")

        sys.addaudithook(hook)
        try:
            yield
        finally:
            is_recording = False

    def _happens(
        self, event: str, given: tuple[Any, ...], done: Collection[str]
    ) -> Iterator[tuple[bytes, str]]:
        """What ``event`` makes, and what was kept of what it loses; ``done``: where that does not matter."""
        place = _FOLDERS.get(event, len(given))
        folder = given[place] if place < len(given) else None  # rmtree of Python 3.10 has none
        path = _place_of(given[_MAKES.get(event, 0)], folder)
        if event == "os.rename" and (source := _place_of(given[0], given[2])) and path is not None:
            if self._is_users(source, done):
                if not self._keep(event, source):
                    return  # a folder of the user's that gets another name
                yield _KEPT, source
            if os.path.isdir(source):
                below = [own for own in done if own != source and is_below(own, {source})]
                yield from ((_MADE, path + own[len(source) :]) for own in below)
        if path is None or path in done or not self._is_below(path):
            return
        loses = event in _LOSES and (event != "open" or given[2] & os.O_TRUNC)
        if not os.path.lexists(path):
            if event in _MAKES:
                yield _MADE, path
        elif loses and self._is_users(path, done) and self._keep(event, path):
            yield _KEPT, path

    def _is_below(self, path: str) -> bool:
        is_ours = "__pycache__" in path or is_below(path, self._besides)
        return not is_ours and is_below(path, self._folders)

    def _is_users(self, path: str, done: Collection[str]) -> bool:
        return self._is_below(path) and not is_below(path, done)

    def _keep(self, event: str, path: str) -> bool:
        """Whether what ``event`` does to ``path`` is done to something else; another run may have kept it."""
        found, old, new = os.lstat(path), os.fsencode(path), os.fsencode(self._away(path))
        if os.path.lexists(new):
            return False
        if event == "shutil.rmtree":
            is_folder = stat.S_ISDIR(found.st_mode)
            return is_folder and not _C.rename(old, new) and not _C.mkdir(old, found.st_mode)
        if not stat.S_ISREG(found.st_mode) or not found.st_size:  # an empty file may be a lock
            return False
        does = _C.rename if event == "open" else _C.link
        return not does(old, new)

    def _place(self, path: str) -> str:
        """Where ``path`` is: another run, which overwrites it, may have renamed it."""
        away = self._away(path)
        return away if os.path.lexists(away) else path

    def _away(self, path: str) -> str:
        """In the session's folder, not in its own, which may be removed; such a folder itself next to it."""
        above = (folder for folder in sorted(self._folders) if folder != path and is_below(path, {folder}))
        root = next(above, os.path.dirname(path))
        return os.path.join(root, f".{os.path.relpath(path, root).replace(os.sep, '%')}.membudget")


class FolderLock:
    """Of a folder in which tests run, in any process: next to others, or one alone that renames files."""

    def __init__(self, folder: str | Path) -> None:
        self._opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        #: when it was first refused, of those since it was taken
        self._refused_at: float | None = None

    def take(self, *, alone: bool) -> bool:
        """Whether it is taken; what cannot be locked is, and what others have held for too long."""
        try:
            fcntl.flock(self._opened, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refused_at = self._refused_at or time.monotonic()
            if time.monotonic() - self._refused_at < _PATIENCE:
                return False
        except OSError:
            pass
        self._refused_at = None
        return True

    def release(self) -> None:
        """No test of this process runs."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._opened, fcntl.LOCK_UN)

    def close(self) -> None:
        """This process takes it no more."""
        os.close(self._opened)


def _logged(log: Path) -> Mapping[bytes, list[str]]:
    """The paths that ``log`` has of each kind."""
    found: dict[bytes, list[str]] = {kind: [] for kind in (_MADE, _KEPT, _NETWORK)}
    for line in log.read_bytes().split(b"\0")[:-1] if log.exists() else ():
        found[line[:1]].append(os.fsdecode(line[1:]))
    return found


def _place_of(path: Any, folder: int | None) -> str | None:
    """The absolute path, of which there is one for each way there by ``..``."""
    found = path_of(path, folder)
    if found is None or ".." not in found:
        return found
    plain = os.path.normpath(found)
    above, name = os.path.split(found.rstrip(os.sep))
    real = os.path.realpath(above)  # a ``..`` after a link is the folder above the link's target
    return plain if os.path.realpath(os.path.dirname(plain)) == real else os.path.join(real, name)


def _with_all_below(path: str) -> Iterator[str]:
    """``path``, and what is in it if it is a folder: what native code has written there too."""
    yield path
    if not os.path.islink(path):
        for folder, folders, files in os.walk(path):
            yield from (os.path.join(folder, name) for name in (*folders, *files))


def _is_network(address: object) -> bool:
    return isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK)


def _without_downloads(made: set[str]) -> set[str]:
    """Checkpoints with values that nobody has computed, and all that is in their folders."""
    files = set(filter(_is_checkpoint, made))
    folders = {os.path.dirname(path) for path in files} & made
    return {path for path in made if path in files or is_below(path, folders)}


def _is_checkpoint(path: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.path.isfile(path) and has_unknown_values(Path(path))
    return False


def _state(path: str) -> tuple[int, ...]:
    found = os.lstat(path)
    return found.st_mode, found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns


def _merge(path: str, goal: str) -> None:
    """Put what is at ``path`` to ``goal``, where a folder may be."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and os.path.isdir(goal):
            for name in os.listdir(path):
                _merge(os.path.join(path, name), os.path.join(goal, name))
            os.rmdir(path)
        else:
            os.replace(path, goal)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
