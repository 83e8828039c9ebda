"""Whose files an estimate depends on one by one: all but those of installations, which have versions."""

from __future__ import annotations

import os
import site
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Stands for the session's root folder in what is kept, so that another checkout finds it.
_ROOT = "{root}"
#: Not files: what the kernel reports.
_KERNEL = ("/proc", "/sys", "/dev")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def installed_folders() -> tuple[str, ...]:
    """The folders of Python and of installed distributions, and this package's own."""
    found = [path for name, path in sysconfig.get_paths().items() if "lib" in name]
    found += [*site.getsitepackages(), site.getusersitepackages(), _PACKAGE, *_KERNEL]
    return tuple(dict.fromkeys(folder for path in found for folder in (path, os.path.realpath(path))))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``folders`` or lies in one."""
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


class Names:
    """Paths as they are kept: what lies in the session's root folder is named from there."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip(os.sep) or os.sep

    def name(self, path: str) -> str:
        """``path`` as it is kept."""
        return _ROOT + path[len(self._root) :] if is_below(path, [self._root]) else path

    def names(self, path: str) -> list[str]:
        """All names of ``path``: what lies next to a folder above the root folder has two.

        Code that looks for a file from folder to folder upwards finds another one in another checkout.
        """
        folder, base = os.path.split(path)
        if is_below(path, [self._root]) or not self.is_above(folder):
            return [self.name(path)]
        return [path, "/".join([_ROOT, os.path.relpath(folder, self._root), base])]

    def is_above(self, path: str) -> bool:
        """Whether the root folder lies in ``path``."""
        return path != self._root and is_below(self._root, [path.rstrip(os.sep)])

    def path(self, name: str) -> str:
        """The inverse of ``name``, and of each of ``names``, in this session."""
        return os.path.normpath(self._root + name[len(_ROOT) :]) if name.startswith(_ROOT) else name

    def text(self, text: str) -> str:
        """``text`` with the root folder named wherever it occurs."""
        return text.replace(self._root, _ROOT) if len(self._root) > 1 else text

    def plain(self, value: Any) -> Any:
        """``value`` as JSON has it, with the root folder named in all texts; an object by its ``repr``."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.plain(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(inner) for inner in value]
        if isinstance(value, (set, frozenset)):
            return sorted(self.text(repr(inner)) for inner in value)
        return self.text(value if isinstance(value, str) else repr(value))


def importable_names(folder: str) -> Iterator[str]:
    """The modules and packages that an import may find in ``folder``."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return
    for entry in entries:
        stem, dot, suffix = entry.partition(".")
        is_module = bool(dot) and suffix.rpartition(".")[2] in ("py", "pyc", "so")
        if stem.isidentifier() and stem != "__pycache__" and (is_module or not dot):
            yield stem
