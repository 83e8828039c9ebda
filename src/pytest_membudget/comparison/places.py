"""Translates paths of the head's checkout to the base's, and finds modules imported from it."""

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..cache.paths import is_below
from ..tracking.running_code.source import PACKAGE_FOLDERS

#: The folder of this package, which is not part of the checkout, even if it is installed inside of it.
_OURS = str(Path(__file__).resolve().parents[2])
#: Modules of setuptools' editable installs; each has a mapping of packages to folders.
_EDITABLE = "__editable__"
#: A base's worker asks after each test, of some two thousand modules.
_real_path = functools.cache(os.path.realpath)


class CheckoutPaths:
    """Translates paths of the checkout at ``head`` to the checkout at ``base``."""

    def __init__(self, head: str, base: str) -> None:
        self._head = os.path.realpath(head)
        self._base = base

    def at_base(self, path: str) -> str:
        """``path`` at the base; unchanged if it is not in the checkout."""
        real = os.path.realpath(path)
        if not _is_own(real, self._head):
            return path
        return os.path.normpath(os.path.join(self._base, os.path.relpath(real, self._head)))

    def argument(self, text: str) -> str:
        """An argument of the command line with its absolute paths at the base."""
        return self._base if text == self._head else text.replace(self._head + os.sep, self._base + os.sep)

    def import_path(self, entries: Iterable[str], roots: Iterable[str]) -> list[str]:
        """``sys.path`` at the base: ``entries``, after those of ``roots`` that are not among them."""
        listed = [self.at_base(os.path.abspath(entry)) for entry in entries]
        return [*(path for path in map(self.at_base, roots) if path not in listed), *listed]


def _is_own(path: str, head: str) -> bool:
    """Whether ``path`` is a part of the project in the checkout at ``head``; both are resolved."""
    return is_below(path, {head}) and not is_installed(path, head) and path != _OURS


def is_installed(path: str, head: str) -> bool:
    """Whether ``path`` belongs to an installation of Python inside of the checkout at ``head``."""
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)} - {head}
    inside = {prefix for prefix in prefixes if is_below(prefix, {head})}
    return is_below(path, inside) or any(part in path + os.sep for part in PACKAGE_FOLDERS)


def import_roots(modules: Mapping[str, ModuleType | None], head: str) -> list[str]:
    """The folders of the checkout at ``head`` that its modules were imported from, or would be."""
    roots: dict[str, None] = {}
    for name, module in list(modules.items()):
        if name.startswith(_EDITABLE):
            roots.update(dict.fromkeys(_editable_roots(getattr(module, "MAPPING", None))))
        elif "." not in name:
            roots.update(dict.fromkeys(_roots_of(module)))
    return [root for root in roots if _is_own(root, os.path.realpath(head))]


def _file_of(module: ModuleType | None) -> str:
    """The file of ``module``, resolved; empty if it has none."""
    file = getattr(module, "__file__", None)
    # torch.ops has a name for one
    return _real_path(file) if isinstance(file, str) and os.path.isabs(file) else ""


def _roots_of(module: ModuleType | None) -> list[str]:
    file = _file_of(module)
    if not file.endswith((".py", ".so", ".pyd")):
        return []
    folder, name = os.path.split(file)
    return [os.path.dirname(folder) if name.startswith("__init__.") else folder]


def _editable_roots(mapping: Any) -> list[str]:
    """The parent folders of editable packages that have the name of their folder."""
    packages = mapping.items() if isinstance(mapping, Mapping) else ()
    places = [(str(name), *os.path.split(os.path.realpath(str(path)))) for name, path in packages]
    return [folder for name, folder, last in places if last.partition(".")[0] == name]


def checkout_path(entries: Iterable[str], roots: Iterable[str], head: str) -> list[str]:
    """Those of ``entries`` in the checkout at ``head``, after those of ``roots`` that are not among them."""
    real = os.path.realpath(head)
    listed = [os.path.abspath(entry) for entry in entries]
    own = [path for path in listed if _is_own(os.path.realpath(path), real)]
    return [*(root for root in roots if root not in own), *own]


def foreign_modules(modules: Mapping[str, ModuleType | None], head: str, own: str) -> dict[str, str]:
    """The modules that were imported from the checkout at ``head``, with their files; not this package's.

    ``own``: the folder of the base's checkout, which may lie in the other.
    """
    real, inside = os.path.realpath(head), os.path.realpath(own)
    package = __package__.partition(".")[0]
    others = [one for one in [*modules.items()] if one[0].partition(".")[0] != package]
    files = ((name, _file_of(module)) for name, module in others)
    return {name: file for name, file in files if _is_own(file, real) and not is_below(file, {inside})}
