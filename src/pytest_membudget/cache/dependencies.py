"""What one estimate depended on, and whether all of it still is as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .environment import variables
from .files import ABSENT, FOLDER, Files, listing_digest
from .imports import NAMESPACE, Imports
from .reach import Names, importable_names, installed_folders, is_below


@dataclass(frozen=True, slots=True)
class World:
    """What there is now: files, modules to be found, variables."""

    names: Names
    files: Files
    imports: Imports
    environment: Mapping[str, str]
    search: tuple[str, ...]
    """The folders that imports look into, absolute."""
    head: str | None = None
    """The checkout that this session is the base for: nothing of it may be used here."""

    def own_search(self) -> list[str]:
        """Those of them that are not installations."""
        installed = installed_folders()
        return [folder for folder in dict.fromkeys(self.search) if not is_below(folder, installed)]


class Unkeepable(Exception):  # noqa: N818 - no error: it says why an estimate is made anew every time
    """What an estimate depended on is not known well enough."""


def dependencies_of(seen: Mapping[str, Any], world: World) -> dict[str, Any]:
    """What an ``Observer`` has seen, as it can be looked at again. Raises ``Unkeepable``."""
    if seen["trouble"]:
        raise Unkeepable(seen["trouble"])
    if world.head is not None and any(is_below(path, [world.head]) for path in seen["files"]):
        raise Unkeepable("a base used the files of the checkout that it is the base for")
    name, files = world.names.name, world.files
    for path, signature in seen["files"].items():
        if list(files.signature(path) or ()) != list(signature):
            raise Unkeepable(f"{path} was changed while the test ran")
    if any(world.imports.is_found(missing) for missing in seen["missing"]):
        raise Unkeepable("a module that was not found is there")
    found = {path: files.state(path) for path in seen["files"]}
    found.update(dict.fromkeys(seen["absent"], ABSENT))
    found.update((path, FOLDER) for path in seen["folders"] if not world.names.is_above(path))
    later = [path for path in seen["paths"] if path not in world.search]
    return {
        "states": {each: state for path, state in found.items() for each in world.names.names(path)},
        "listings": {name(path): listing for path, listing in seen["listings"].items()},
        "modules": {
            module: _named(world.names, origin)
            for module, origin in seen["modules"].items()
            if world.imports.origin(module) == origin
        },
        "outside": sorted(seen["outside"]),
        "missing": sorted(seen["missing"]),
        "searched": {name(path): _importable(path) for path in later},
        "variables": variables(world.environment, sorted(seen["variables"]), world.names),
    }


def first_change(kept: Mapping[str, Any], world: World) -> str | None:
    """The first thing found that is no longer as it was kept; None if all is the same."""
    return next(_changes(kept, world), None)


def _changes(kept: Mapping[str, Any], world: World) -> Iterator[str]:
    path, files, imports = world.names.path, world.files, world.imports
    now = variables(world.environment, list(kept["variables"]), world.names)
    yield from (variable for variable, value in kept["variables"].items() if now[variable] != value)
    yield from (name for name, state in kept["states"].items() if files.state(path(name)) != state)
    yield from (name for name, names in kept["listings"].items() if files.listing(path(name)) != names)
    yield from (name for name, names in kept["searched"].items() if _importable(path(name)) != names)
    for module, origin in kept["modules"].items():
        found = imports.origin(module)
        if found is None or _named(world.names, found) != origin:
            yield f"module {module}"
    yield from (f"module {module}" for module in kept["missing"] if imports.is_found(module))
    yield from (f"module {module}" for module in _shadowed(kept["outside"], world))


def _shadowed(outside: list[str], world: World) -> Iterator[str]:
    """Modules of installations in whose place another would be imported now."""
    known, installed = set(outside), installed_folders()
    for folder in world.own_search():
        for module in known.intersection(importable_names(folder)):
            origin = world.imports.origin(module)
            if origin is not None and not is_below(_first_path(origin), installed):
                yield module


def _first_path(origin: str) -> str:
    return origin.removeprefix(NAMESPACE).partition(os.pathsep)[0]


def _named(names: Names, origin: str) -> str:
    if not origin.startswith(NAMESPACE):
        return names.name(origin)
    return NAMESPACE + os.pathsep.join(map(names.name, origin.removeprefix(NAMESPACE).split(os.pathsep)))


def _importable(folder: str) -> str:
    return listing_digest(set(importable_names(folder)))
