"""Dependencies of an estimate: states of paths, modules and variables, and whether one has changed."""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .paths import Names, is_below

#: What may be read of a path: whether it is a file or folder; mode and owner; the result of ``os.stat``
#: without the access time; the content; the target of a link; names and types in a folder; and the result of
#: ``os.stat`` for each.
Kind = Literal["type", "mode", "status", "content", "link", "listing", "details"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: What an import may find: modules and packages; folders without ``__init__.py`` too.
Importable = Literal["modules", "namespaces"]
IMPORTABLE: tuple[Importable, ...] = get_args(Importable)
ABSENT, FOLDER, SPECIAL = "absent", "folder", "special"
#: Larger files, such as checkpoints, are identified by size and times: reading them takes too long.
MOST_READ_BYTES = 64 * 2**20
_DIGEST_BYTES = 20
_SUFFIXES = importlib.machinery.all_suffixes()


class NotCacheable(Exception):  # noqa: N818 - no error: it carries the reason why an estimate is not cached
    """The dependencies of an estimate are not fully known."""


def digest(data: bytes) -> str:
    """A digest of ``data``."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def digest_of(value: object) -> str:
    """A digest of ``value``, which is in JSON types."""
    return digest(json.dumps(value, sort_keys=True).encode())


class States:
    """States of paths; a file's content is read once unless the file changes."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, tuple[int, ...]], str] = {}

    def of(self, kind: Kind, path: str) -> str:
        """The state of ``kind`` of ``path``, a short text."""
        if kind == "link":
            return os.readlink(path) if os.path.islink(path) else ""
        try:
            if kind == "status":
                return digest(repr([_status(os.lstat(path)), _status(os.stat(path))]).encode())
            if kind in ("listing", "details"):
                return _listing(path, details=kind == "details")
            return self._of_found(kind, path, os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except OSError as error:
            return f"unreadable: {error.errno}"

    def _of_found(self, kind: Kind, path: str, found: os.stat_result) -> str:
        if kind == "mode":
            return f"{found.st_mode:o} {found.st_uid} {found.st_gid}"
        if stat.S_ISDIR(found.st_mode):
            return FOLDER
        if kind == "type":
            return f"{stat.S_IFMT(found.st_mode):o}"
        if not stat.S_ISREG(found.st_mode):
            return SPECIAL
        known = (path, _status(found))
        if known not in self._digests:
            self._digests[known] = _content(path, found)
        return self._digests[known]


def _status(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_mode, found.st_ino, found.st_dev, found.st_nlink, found.st_uid, found.st_gid,
            found.st_size, found.st_mtime_ns, found.st_ctime_ns)  # fmt: skip


def _content(path: str, found: os.stat_result) -> str:
    if found.st_size > MOST_READ_BYTES:
        return digest(repr(_status(found)).encode())
    with open(path, "rb") as file:
        return digest(file.read())


def _listing(path: str, *, details: bool) -> str:
    """Python's own bytecode is left out: each run may write some."""
    with os.scandir(path) as entries:
        listed = sorted(
            _listed(entry, details)
            for entry in entries
            if entry.name != "__pycache__" and not entry.name.endswith(".pyc")
        )
    return digest(repr(listed).encode("utf-8", "surrogateescape"))


def _listed(entry: os.DirEntry[str], details: bool) -> tuple[Any, ...]:
    types = (entry.name, entry.is_symlink(), entry.is_dir(), entry.is_file())
    return (*types, States().of("status", entry.path)) if details else types


def importable(kind: Importable, folder: str, name: str) -> str:
    """The paths that an import of ``name`` may find in ``folder``, by their suffixes."""
    path = os.path.join(folder, name)
    ends = list(_SUFFIXES)
    if os.path.isdir(path):
        ends += [f"/__init__{suffix}" for suffix in _SUFFIXES] + ([os.sep] if kind == "namespaces" else [])
    return " ".join(end for end in ends if os.path.exists(path + end))


def variables(environment: Mapping[str, str], listed: list[str], names: Names) -> dict[str, str | None]:
    """Digests of the values of the variables ``listed``, since values may be secrets; None if not set."""
    values = {name: environment.get(name) for name in listed}
    return {
        name: None
        if value is None
        else digest(f"{name}={names.text(value)}".encode("utf-8", "surrogateescape"))
        for name, value in values.items()
    }


@dataclass(frozen=True, slots=True)
class CurrentStates:
    """The current states of files, modules and variables."""

    names: Names
    states: States
    environment: Mapping[str, str]
    head: str | None = None
    """The head's checkout, if this session estimates a base: it must not use anything of it."""


def dependencies_of(seen: Mapping[str, Any], world: CurrentStates) -> dict[str, Any]:
    """The dependencies that an ``Observer`` has recorded. Raises ``NotCacheable`` if they are incomplete."""
    if seen["trouble"]:
        raise NotCacheable(seen["trouble"])
    names, head, contents = world.names, world.head, seen["paths"]["content"]
    special = [path for path, state in contents.items() if state == SPECIAL]
    if special:
        raise NotCacheable(f"{special[0]} is no regular file")
    if head is not None and any(is_below(path, [head]) for path in contents):
        raise NotCacheable("a base used the files of the checkout that it is the base for")
    modules: dict[str, Any] = {
        kind: {names.name(folder): found for folder, found in seen[kind].items()} for kind in IMPORTABLE
    }
    kept = {
        "paths": {kind: _named(states, names) for kind, states in seen["paths"].items()},
        **modules,
        "variables": variables(world.environment, sorted(seen["variables"]), names),
    }
    change = first_change(kept, world)
    if change is not None:
        raise NotCacheable(f"{change} was changed while the test ran")
    return kept


def _named(states: Mapping[str, str], names: Names) -> dict[str, str]:
    return {
        name: names.text(state)
        for path, state in states.items()
        if state != FOLDER or not names.is_above(path)
        for name in names.names(path)
    }


def first_change(kept: Mapping[str, Any], world: CurrentStates) -> str | None:
    """The first dependency that has changed; None if none has."""
    return next(_changes(kept, world), None)


def _changes(kept: Mapping[str, Any], world: CurrentStates) -> Iterator[str]:
    names, now = world.names, variables(world.environment, list(kept["variables"]), world.names)
    yield from (variable for variable, value in kept["variables"].items() if now[variable] != value)
    for kind, states in kept["paths"].items():
        for name, state in states.items():
            if names.text(world.states.of(kind, names.path(name))) != state:
                yield name
    for kind in IMPORTABLE:
        for name, found in kept[kind].items():
            folder = names.path(name)
            there = {entry.partition(".")[0] for entry in entries(folder)}
            for module, state in found.items():
                if (state or module in there) and importable(kind, folder, module) != state:
                    yield f"module {module}"


def entries(folder: str) -> list[str]:
    """The names in ``folder``; none where it cannot be read."""
    try:
        return os.listdir(folder or os.curdir)
    except OSError:
        return []
