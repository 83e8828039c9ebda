"""Paths: which belong to installations, and which one a function was given."""

import os
import sys
import sysconfig
from collections.abc import Container
from functools import cache
from typing import Any

#: Folders of the kernel, which have no files.
_KERNEL = ("/proc", "/sys", "/dev")
#: The folder of this package.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@cache
def installed_folders() -> frozenset[str]:
    """The folders of Python and of installed distributions, and this package's own."""
    found = [path for name, path in sysconfig.get_paths().items() if "lib" in name]
    found += [PACKAGE, *_KERNEL]
    found += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return frozenset(folder for path in found for folder in (path, os.path.realpath(path)))


def is_below(path: str, folders: Container[str]) -> bool:
    """Whether ``path`` is one of ``folders`` or lies in one."""
    while path not in folders:
        path, below = os.path.dirname(path), path
        if path == below:
            return False
    return True


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
