"""Where an import would find a module now, found out without importing anything."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

#: Before the folders of a package without ``__init__.py``.
NAMESPACE = "namespace:"


def origin_of(file: object, search: object) -> str | None:
    """How a module is identified: by its file, or as a namespace by its folders; None if it has neither.

    A module made of a text (torch's ``<_remote_module_non_scriptable>.py``) has no file, whatever it says.
    """
    if isinstance(file, str):
        return None if file.startswith("<") else os.path.abspath(file)
    try:
        folders = [os.path.abspath(folder) for folder in search]  # type: ignore[attr-defined]
    except (TypeError, ValueError, KeyError):
        return None
    return NAMESPACE + os.pathsep.join(folders) if folders else None


class Imports:
    """Answers where modules are found, each asked for once."""

    def __init__(self) -> None:
        importlib.invalidate_caches()
        self._specs: dict[str, Any] = {}

    def origin(self, name: str) -> str | None:
        """Where the module ``name`` is found; None if it is not, or has no file."""
        spec = self._spec(name)
        if spec is None:
            return None
        return origin_of(spec.origin if spec.has_location else None, spec.submodule_search_locations)

    def is_found(self, name: str) -> bool:
        """Whether there is a module ``name``."""
        return self._spec(name) is not None

    def _spec(self, name: str) -> Any:
        if name not in self._specs:
            self._specs[name] = self._searched(name)
        return self._specs[name]

    def _searched(self, name: str) -> Any:
        parent, _, _ = name.rpartition(".")
        path: Sequence[str] | None = None
        if parent:
            package = self._spec(parent)
            if package is None or package.submodule_search_locations is None:
                return None
            path = self._search_path(parent, package)
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, None) if find_spec is not None else None
            if spec is not None:
                return spec
        return None

    def _search_path(self, parent: str, spec: Any) -> Sequence[str]:
        """The folders of a package: a running one may have made them others."""
        loaded = getattr(sys.modules.get(parent), "__path__", None)
        return list(spec.submodule_search_locations if loaded is None else loaded)
