"""Translates paths of the head's checkout to the base's, and finds modules imported from it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..tracking.running_code.source import PACKAGE_FOLDERS

#: The folder of this package, which is not part of the checkout, even if it is installed inside of it.
_OURS = str(Path(__file__).resolve().parents[2])
#: Modules of setuptools' editable installs; each has a mapping of packages to folders.
_EDITABLE = "__editable__"


class CheckoutPaths:
    """Translates paths of the checkout at ``head`` to the checkout at ``base``."""

    def __init__(self, head: str, base: str) -> None:
        self._head = os.path.realpath(head)
        self._base = base

    def at_base(self, path: str) -> str:
        """``path`` at the base; unchanged if it is not in the checkout."""
        real = os.path.realpath(path)
        if not is_within(real, self._head) or is_installed(real, self._head) or real == _OURS:
            return path
        return os.path.normpath(os.path.join(self._base, os.path.relpath(real, self._head)))

    def argument(self, text: str) -> str:
        """An argument of the command line with its absolute paths at the base."""
        for head in dict.fromkeys((self._head, os.path.abspath(self._head))):
            if text == head:
                return self._base
            text = text.replace(head + os.sep, self._base + os.sep)
        return text

    def import_path(self, entries: Iterable[str], roots: Iterable[str]) -> list[str]:
        """``sys.path`` at the base: ``entries``, after those of ``roots`` that are not among them."""
        listed = [self.at_base(os.path.abspath(entry)) for entry in entries]
        return [*(path for path in map(self.at_base, roots) if path not in listed), *listed]


def is_within(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies in it."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def is_installed(path: str, head: str) -> bool:
    """Whether ``path`` belongs to an installation of Python inside of the checkout at ``head``."""
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    inside = [prefix for prefix in prefixes if prefix != head and is_within(prefix, head)]
    return any(part in path + os.sep for part in PACKAGE_FOLDERS) or any(
        is_within(path, prefix) for prefix in inside
    )


def import_roots(modules: Mapping[str, ModuleType | None], head: str) -> list[str]:
    """The folders of the checkout at ``head`` that its modules were imported from, or would be."""
    roots: dict[str, None] = {}
    for name, module in list(modules.items()):
        if name.startswith(_EDITABLE):
            roots.update(dict.fromkeys(_editable_roots(getattr(module, "MAPPING", None))))
        elif "." not in name:
            roots.update(dict.fromkeys(_roots_of(module)))
    real = os.path.realpath(head)
    own = (root for root in roots if is_within(root, real) and root != _OURS)
    return [root for root in own if not is_installed(root, real)]


def _roots_of(module: ModuleType | None) -> list[str]:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not os.path.isabs(file) or not file.endswith((".py", ".so", ".pyd")):
        return []
    real = os.path.realpath(file)
    folder = os.path.dirname(real)
    is_package = os.path.basename(real).startswith("__init__.")
    return [os.path.dirname(folder) if is_package else folder]


def _editable_roots(mapping: Any) -> list[str]:
    """The parent folders of editable packages that have the name of their folder."""
    if not isinstance(mapping, Mapping):
        return []
    found = []
    for name, path in mapping.items():
        last = str(name).rpartition(".")[2]
        real = os.path.realpath(str(path))
        if os.path.basename(real).partition(".")[0] == last and "." not in str(name):
            found.append(os.path.dirname(real))
    return found


def checkout_path(entries: Iterable[str], roots: Iterable[str], head: str) -> list[str]:
    """Those of ``entries`` in the checkout at ``head``, after those of ``roots`` that are not among them."""
    real = os.path.realpath(head)
    listed = [os.path.abspath(entry) for entry in entries]
    paths = ((path, os.path.realpath(path)) for path in listed)
    own = [path for path, at in paths if is_within(at, real) and not is_installed(at, real) and at != _OURS]
    return [*(root for root in roots if root not in own), *own]


def foreign_modules(modules: Mapping[str, ModuleType | None], head: str, own: str) -> dict[str, str]:
    """The modules that were imported from the checkout at ``head``, with their files; not this package's.

    ``own``: the folder of the base's checkout, which may lie in the other.
    """
    real, inside, found = os.path.realpath(head), os.path.realpath(own), {}
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] == __package__.partition(".")[0]:
            continue
        if not os.path.isabs(file):  # torch.ops has a name for one
            continue
        path = _real_path(file)
        if is_within(path, real) and not is_within(path, inside) and not is_installed(path, real):
            found[name] = path
    return found


@functools.cache  # a base's worker asks after each test, of some two thousand modules
def _real_path(file: str) -> str:
    return os.path.realpath(file)
