"""Dependencies of an estimate: states of paths, and whether one has changed."""

import hashlib
import json
import os
import stat
from collections.abc import Container, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ..git_command import run_git
from .paths import is_below

ABSENT, FOLDER, SPECIAL = "absent", "folder", "special"
#: Larger files, such as checkpoints, are identified by size and times: reading them takes too long.
MOST_READ_BYTES = 64 * 2**20
_DIGEST_BYTES = 20
#: The session's root folder in an entry, so that another checkout finds it.
_ROOT = "{root}"

#: All that git's commands of ``commands.py`` read: the head, the index and the other files, the references,
#: the settings, and what is not committed.
_GIT = (
    ("status", "--porcelain=v2", "--branch"), ("for-each-ref",), ("config", "--list"), ("diff", "HEAD")
)  # fmt: skip


class NotCacheable(Exception):  # noqa: N818 - no error: it carries the reason why an estimate is not cached
    """The dependencies of an estimate are not fully known."""


def digest(data: bytes) -> str:
    """A digest of ``data``."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def digest_of(value: object, root: str = "") -> str:
    """A digest of ``value``, the same for each ``root``; what is of no type of JSON counts as it prints."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_printed)
    return digest((text.replace(root, _ROOT) if root else text).encode("utf-8", "surrogateescape"))


def _printed(value: object) -> object:
    return sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value)


class States:
    """States of paths, as they are now; a file's content is read once unless the file changes."""

    def __init__(self, root: str = "", head: str | None = None) -> None:
        """``root``: of the session. ``head``: the checkout that it estimates a base for, and must not use."""
        self.root = root.rstrip(os.sep)
        self._head = head
        self._digests: dict[tuple[str, tuple[int, ...]], str] = {}

    def of(self, kind: str, path: str, made: Container[str] = ()) -> str:
        """The state of ``kind`` of ``path``, a short text; listed without what is ``made``.

        state: what is there, its mode, its content and where a link leads; listing: the names and types in a
        folder; status: all that ``os.stat`` says but for the access time, and of a folder no time or size,
        which what is made in it changes, but its listing; module: what an import of that name may find there;
        git: what it says of the checkout.
        """
        link = f"by {os.readlink(path)}: " if kind == "state" and os.path.islink(path) else ""
        try:
            return link + self._of_found(kind, path, made)
        except (FileNotFoundError, NotADirectoryError):
            return link + ABSENT
        except OSError as error:
            return f"{link}unreadable: {error.errno}"

    def _of_found(self, kind: str, path: str, made: Container[str]) -> str:
        if kind == "listing":
            return _listing(path, made)
        if kind == "module":
            spec = PathFinder.find_spec(os.path.basename(path), [os.path.dirname(path)])
            return "" if spec is None else spec.origin or "namespace"
        if kind == "git":
            return digest_of([run_git(Path(path), *words).text for words in _GIT])
        found = os.stat(path)
        if kind == "status" and stat.S_ISDIR(found.st_mode):
            owner = (found.st_mode, found.st_ino, found.st_dev, found.st_uid, found.st_gid)
            return digest_of([owner, _listing(path, made)])
        if kind == "status":
            return digest_of([_status(os.lstat(path)), _status(found)])
        if not stat.S_ISREG(found.st_mode):
            return f"{FOLDER if stat.S_ISDIR(found.st_mode) else SPECIAL} {found.st_mode:o}"
        known = (path, _status(found))
        if known not in self._digests:
            is_read = found.st_size <= MOST_READ_BYTES
            self._digests[known] = digest(Path(path).read_bytes()) if is_read else digest_of(_status(found))
        return f"{found.st_mode:o} {self._digests[known]}"

    def dependencies_of(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        """The dependencies that an ``Observer`` has recorded. Raises ``NotCacheable`` if incomplete."""
        if seen["trouble"]:
            raise NotCacheable(seen["trouble"])
        paths, is_bound = {}, False
        for key, state in seen["paths"].items():
            kind, path = key.split(":", 1)
            is_folder = state.startswith(FOLDER)
            is_file = kind == "state" and not is_folder and state != ABSENT
            if self._head and is_file and is_below(path, [self._head]):
                raise NotCacheable("a base used the files of the checkout that it is the base for")
            # code that looks for a file from folder to folder upwards finds another one in another checkout
            is_bound |= self._is_above(os.path.dirname(path)) and not is_folder
            if not (is_folder and self._is_above(path)):
                name = _ROOT + path[len(self.root) :] if is_below(path, [self.root]) else path
                paths[f"{kind}:{name}"] = self._text(state)
        kept = {"root": self.root if is_bound else None, "paths": paths}
        change = self.first_change(kept)
        if change is not None:
            place = change.replace(_ROOT + os.sep, "").replace(_ROOT, "the root folder")
            raise NotCacheable(f"{place} was changed while the test ran")
        return kept

    def first_change(self, kept: Mapping[str, Any]) -> str | None:
        """The first dependency that has changed; None if none has."""
        if kept["root"] not in (None, self.root):
            return str(kept["root"])
        for key, state in kept["paths"].items():
            kind, name = key.split(":", 1)
            path = self.root + name[len(_ROOT) :] if name.startswith(_ROOT) else name
            if self._text(self.of(kind, path)) != state:
                return str(name)
        return None

    def _is_above(self, path: str) -> bool:
        return path != self.root and is_below(self.root, [path])

    def _text(self, state: str) -> str:
        return state.replace(self.root, _ROOT) if self.root else state


def _status(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_mode, found.st_ino, found.st_dev, found.st_nlink, found.st_uid, found.st_gid,
            found.st_size, found.st_mtime_ns, found.st_ctime_ns)  # fmt: skip


def _listing(path: str, made: Container[str]) -> str:
    """Python's own bytecode is left out: each run may write some."""
    with os.scandir(path) as entries:
        return digest_of(sorted(
            (entry.name, entry.is_symlink(), entry.is_dir(), entry.is_file())
            for entry in entries
            if entry.name != "__pycache__" and not entry.name.endswith(".pyc") and entry.path not in made
        ))  # fmt: skip
