"""Paths: which belong to installations, which are opened, and how others are written in a cache entry."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from typing import Any

#: The session's root folder in an entry, so that another checkout finds it.
_ROOT = "{root}"
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
    try:
        if isinstance(path, int):
            opened = os.readlink(f"/proc/self/fd/{path}")
            return opened if os.path.isabs(opened) and os.path.exists(opened) else None
        is_given = folder is not None and folder >= 0
        start = os.readlink(f"/proc/self/fd/{folder}") if is_given else os.getcwd()
    except OSError:  # it is not open
        return None
    joined = os.path.join(start, os.fsdecode(path)) if path is not None else None
    return joined if joined is None or ".." in joined else os.path.normpath(joined)


def source_of(path: str) -> str:
    """The source of the bytecode at ``path``, also of modules that pytest rewrites."""
    folder, name = os.path.split(path)
    source = name.partition(f".{sys.implementation.cache_tag}")[0] + ".py"
    if sys.pycache_prefix is not None and folder.startswith(sys.pycache_prefix):
        return os.path.join(folder[len(sys.pycache_prefix) :] or os.sep, source)
    is_cache = os.path.basename(folder) == "__pycache__"
    return os.path.join(os.path.dirname(folder), source) if is_cache else path


class Names:
    """Writes paths in cache entries, relative to the session's root folder where possible."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip(os.sep) or os.sep

    def name(self, path: str) -> str:
        """``path`` as it is written."""
        return _ROOT + path[len(self.root) :] if is_below(path, [self.root]) else path

    def path(self, name: str) -> str:
        """The inverse of ``name`` in this session."""
        return self.root + name[len(_ROOT) :] if name.startswith(_ROOT) else name

    def is_above(self, path: str) -> bool:
        """Whether the root folder lies in ``path``."""
        return path != self.root and is_below(self.root, [path.rstrip(os.sep)])

    def text(self, text: str) -> str:
        """``text`` with the root folder replaced by its placeholder."""
        return text.replace(self.root, _ROOT) if len(self.root) > 1 else text

    def shown(self, text: str) -> str:
        """``text`` for messages: paths in the root folder are relative to it."""
        return self.text(text).replace(_ROOT + os.sep, "")
