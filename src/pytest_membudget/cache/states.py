"""Dependencies of an estimate: states of paths, and whether one has changed."""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ..git_command import run_git
from .paths import Names, is_below

#: What may be asked of a path: the content; what is there, its mode, and where a link leads; the names and
#: types in a folder; all that ``os.stat`` says but for the access time; whether a module of that name can be
#: imported from there; what git says of the checkout.
Kind = Literal["content", "type", "listing", "status", "module", "git"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ABSENT, FOLDER, SPECIAL = "absent", "folder", "special"
#: Larger files, such as checkpoints, are identified by size and times: reading them takes too long.
MOST_READ_BYTES = 64 * 2**20
_DIGEST_BYTES = 20
_SUFFIXES = importlib.machinery.all_suffixes()
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


def digest_of(value: object) -> str:
    """A digest of ``value``."""
    return digest(json_text(value).encode("utf-8", "surrogateescape"))


def json_text(value: object) -> str:
    """``value`` as JSON; what is of no type of JSON as it prints itself."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_printed)


def _printed(value: object) -> object:
    return sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value)


class States:
    """States of paths; a file's content is read once unless the file changes."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, tuple[int, ...]], str] = {}
        self._stems: dict[tuple[str, tuple[int, ...]], set[str]] = {}

    def of(self, kind: Kind, path: str) -> str:
        """The state of ``kind`` of ``path``, a short text."""
        try:
            state = self._of_found(kind, path)
        except (FileNotFoundError, NotADirectoryError):
            state = ABSENT
        except OSError as error:
            state = f"unreadable: {error.errno}"
        return f"{state} by {os.readlink(path)}" if kind == "type" and os.path.islink(path) else state

    def _of_found(self, kind: Kind, path: str) -> str:
        if kind == "listing":
            return _listing(path)
        if kind == "module":
            return self._importable(path)
        if kind == "git":
            return digest_of([run_git(Path(path), *words).text for words in _GIT])
        found = os.stat(path)
        if kind == "status":
            return digest_of([_status(os.lstat(path)), _status(found)])
        if kind == "type":
            return f"{FOLDER if stat.S_ISDIR(found.st_mode) else ''}{found.st_mode:o}"
        if not stat.S_ISREG(found.st_mode):
            return FOLDER if stat.S_ISDIR(found.st_mode) else SPECIAL
        known = (path, _status(found))
        if known not in self._digests:
            self._digests[known] = _content(path, found)
        return self._digests[known]

    def _importable(self, path: str) -> str:
        """What an import of that name in that folder may find, by its ends."""
        folder, name = os.path.split(path)
        known = (folder, _status(os.stat(folder)))
        if known not in self._stems:
            self._stems[known] = {entry.partition(".")[0] for entry in os.listdir(folder)}
        if name not in self._stems[known]:
            return ""
        ends = [*_SUFFIXES, *(f"/__init__{suffix}" for suffix in _SUFFIXES)]
        return " ".join(end for end in ends if os.path.exists(path + end))


def _status(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_mode, found.st_ino, found.st_dev, found.st_nlink, found.st_uid, found.st_gid,
            found.st_size, found.st_mtime_ns, found.st_ctime_ns)  # fmt: skip


def _content(path: str, found: os.stat_result) -> str:
    if found.st_size > MOST_READ_BYTES:
        return digest_of(_status(found))
    with open(path, "rb") as file:
        return digest(file.read())


def _listing(path: str) -> str:
    """Python's own bytecode is left out: each run may write some."""
    with os.scandir(path) as entries:
        return digest_of(sorted(
            (entry.name, entry.is_symlink(), entry.is_dir(), entry.is_file())
            for entry in entries
            if entry.name != "__pycache__" and not entry.name.endswith(".pyc")
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class CurrentStates:
    """The current states of paths."""

    names: Names
    states: States
    head: str | None = None
    """The head's checkout, if this session estimates a base: it must not use anything of it."""


def dependencies_of(seen: Mapping[str, Any], world: CurrentStates) -> dict[str, Any]:
    """The dependencies that an ``Observer`` has recorded. Raises ``NotCacheable`` if they are incomplete."""
    if seen["trouble"]:
        raise NotCacheable(seen["trouble"])
    names, contents = world.names, seen["paths"]["content"]
    special = [path for path, state in contents.items() if state == SPECIAL]
    if special:
        raise NotCacheable(f"{special[0]} is no regular file")
    if world.head is not None and any(is_below(path, [world.head]) for path in contents):
        raise NotCacheable("a base used the files of the checkout that it is the base for")
    paths: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    is_bound = False
    for kind, states in seen["paths"].items():
        for path, state in states.items():
            is_folder = state.startswith(FOLDER) and " by " not in state
            # code that looks for a file from folder to folder upwards finds another one in another checkout
            is_bound |= names.is_above(os.path.dirname(path)) and not is_folder
            if not (is_folder and names.is_above(path)):
                paths[kind][names.name(path)] = names.text(state)
    kept = {"root": names.root if is_bound else None, "paths": paths}
    change = first_change(kept, world)
    if change is not None:
        raise NotCacheable(f"{change} was changed while the test ran")
    return kept


def first_change(kept: Mapping[str, Any], world: CurrentStates) -> str | None:
    """The first dependency that has changed; None if none has."""
    names = world.names
    if kept["root"] not in (None, names.root):
        return str(kept["root"])
    for kind, states in kept["paths"].items():
        for name, state in states.items():
            if names.text(world.states.of(kind, names.path(name))) != state:
                return str(name)
    return None


def entries(folder: str) -> list[str]:
    """The names in ``folder``; none where it cannot be read."""
    try:
        return os.listdir(folder or os.curdir)
    except OSError:
        return []
