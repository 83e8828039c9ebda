"""Folders of libraries that are preloaded: whole ones, this user's, whose paths LD_PRELOAD can name."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...cache.store import cache_folder
from .compiling import CannotBuild

#: What separates paths in LD_PRELOAD, which has no way to quote; ``$`` begins ld.so's own names.
_UNFIT: Final = frozenset(" :;\t\n$")


def is_fit(folder: Path) -> bool:
    """Whether LD_PRELOAD can name a file in ``folder``."""
    return not _UNFIT & set(str(folder))


def kept_folder(
    environment: Mapping[str, str],
    name: str,
    is_complete: Callable[[Path], bool],
    fill: Callable[[Path], None],
) -> Path:
    """The folder ``name`` of the cache, or of this user's temporary folder; filled if it is not complete.

    Any number of processes may ask for it at once: each fills a new folder, and one of these is put in
    place. Raises ``CannotBuild``, and what ``fill`` raises but for ``OSError``.
    """
    reasons = []
    for folder in _folders(environment):
        if not is_fit(folder):
            reasons.append(f"LD_PRELOAD cannot name {folder}")
            continue
        try:
            return _found_or_filled(folder, name, is_complete, fill)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
    raise CannotBuild(
        "there is no folder to keep the stand-in's libraries in ("
        + "; ".join(reasons)
        + "): set MEMBUDGET_CACHE_DIR to one with 2 MiB of room, and no space, colon, semicolon or $ in it"
    )


def _folders(environment: Mapping[str, str]) -> list[Path]:
    """Where they may be kept: the cache, else a temporary folder of this user."""
    temporary = Path(environment.get("TMPDIR") or tempfile.gettempdir())
    return [cache_folder(environment) / "stand-in", temporary / f"pytest-membudget-{os.getuid()}"]


def _found_or_filled(
    folder: Path, name: str, is_complete: Callable[[Path], bool], fill: Callable[[Path], None]
) -> Path:
    """Raises ``OSError`` if libraries cannot be kept in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_owner(folder)
    target = folder / name
    if not is_complete(target):
        unfinished = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
        try:
            fill(unfinished)
            _move(unfinished, target, is_complete)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _check_owner(folder: Path) -> None:
    """What is preloaded runs as this user: nobody else may put it there."""
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(1, "others can write there")


def _move(unfinished: Path, target: Path, is_complete: Callable[[Path], bool]) -> None:
    """Put whole libraries in place; other processes may be doing the same."""
    if target.exists() and not is_complete(target):
        shutil.rmtree(target, ignore_errors=True)  # what was cut short, by hand or by a failing disk
    with contextlib.suppress(OSError):
        os.rename(unfinished, target)  # fails where another process was first
    if not is_complete(target):
        raise OSError(f"{target} could not be put in place")
