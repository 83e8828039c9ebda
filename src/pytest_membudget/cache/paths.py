"""Paths: which belong to installations, which are versioned, and how others are written in a cache entry."""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from typing import Any

#: The session's root folder in an entry, so that another checkout finds it; ``{root-2}``: two folders above.
_ROOT = "{root}"
_AT_ROOT = re.compile(r"\{root(?:-(\d+))?\}")
#: Folders of the kernel, which have no files.
_KERNEL = ("/proc", "/sys", "/dev")
#: The folder of this package.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def installed_folders() -> tuple[str, ...]:
    """The folders of Python and of installed distributions, and this package's own."""
    found = [path for name, path in sysconfig.get_paths().items() if "lib" in name]
    found += [*site.getsitepackages(), site.getusersitepackages(), PACKAGE, *_KERNEL]
    # of another environment, which a .pth file of this one adds
    found += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(folder for path in found for folder in (path, os.path.realpath(path))))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``folders`` or lies in one."""
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def path_of(path: Any, folder: int | None = None) -> str | None:
    """The absolute path of ``path`` or of an open file; relative to the open ``folder`` if one is given.

    None for what has none: a pipe, a removed file. A ``..`` stays: after a link it is the folder above the
    link's target.
    """
    if isinstance(path, int):
        return _path_of_descriptor(path)
    if path is None:
        return None
    start = _path_of_descriptor(folder) if folder is not None and folder >= 0 else os.getcwd()
    if start is None:
        return None
    joined = os.path.join(start, os.fsdecode(path))
    return joined if ".." in joined else os.path.normpath(joined)


def _path_of_descriptor(descriptor: int) -> str | None:
    """The path of an open file, from ``/proc``."""
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None  # it is not open
    return path if os.path.isabs(path) and os.path.exists(path) else None


def source_of(path: str) -> str:
    """The source of the bytecode at ``path``, also of modules that pytest rewrites."""
    folder, name = os.path.split(path)
    prefix = sys.pycache_prefix
    if prefix is not None and folder.startswith(prefix):
        folder = folder[len(prefix) :] or os.sep
    elif os.path.basename(folder) == "__pycache__":
        folder = os.path.dirname(folder)
    else:
        return path
    return os.path.join(folder, name.partition(f".{sys.implementation.cache_tag}")[0] + ".py")


class Names:
    """Writes paths in cache entries, relative to the session's root folder where possible."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip(os.sep) or os.sep

    def name(self, path: str) -> str:
        """``path`` as it is written."""
        return _ROOT + path[len(self._root) :] if is_below(path, [self._root]) else path

    def names(self, path: str) -> list[str]:
        """All ways to write ``path``; two for folders above the root folder and their content.

        Code that looks for a file from folder to folder upwards finds another one in another checkout.
        """
        folder, base = os.path.split(path)
        if is_below(path, [self._root]) or not self.is_above(folder):
            return [self.name(path)]
        levels = os.path.relpath(self._root, folder).count(os.sep) + 1
        return [path, f"{{root-{levels}}}/{base}"]

    def is_above(self, path: str) -> bool:
        """Whether the root folder lies in ``path``."""
        return path != self._root and is_below(self._root, [path.rstrip(os.sep)])

    def path(self, name: str) -> str:
        """The inverse of ``name``, and of each of ``names``, in this session."""
        match = _AT_ROOT.match(name)
        if match is None:
            return name
        folder = self._root
        for _ in range(int(match[1] or 0)):
            folder = os.path.dirname(folder)
        return os.path.join(folder, name[match.end() + 1 :]) if name[match.end() :] else folder

    def text(self, text: str) -> str:
        """``text`` with the root folder replaced by its placeholder."""
        return text.replace(self._root, _ROOT) if len(self._root) > 1 else text

    def shown(self, text: str) -> str:
        """``text`` for messages: paths in the root folder are relative to it."""
        return self.text(text).replace(_ROOT + os.sep, "")

    def plain(self, value: Any) -> Any:
        """``value`` in JSON types, with the root folder replaced in all texts; other objects by ``repr``."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.plain(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(inner) for inner in value]
        if isinstance(value, (set, frozenset)):
            return sorted(self.text(repr(inner)) for inner in value)
        return self.text(value if isinstance(value, str) else repr(value))
