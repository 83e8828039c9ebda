"""The cache's folder: one file for each estimate, written by any number of processes."""

import bisect
import contextlib
import itertools
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic_files import replacing
from ..units import MIB
from .states import digest_of

#: Of any release: keys follow from its own files.
_ENTRIES = "estimates"
MOST_BYTES = 256 * MIB
#: The share of the size that is left after a cleanup.
_KEPT_SHARE = 0.8
#: Most entries of one test in the same settings, for different states of the code.
_MOST_STATES = 16


def cache_folder(environment: Mapping[str, str]) -> Path:
    """``MEMBUDGET_CACHE_DIR``, else our folder in the platform's cache folder."""
    named = environment.get("MEMBUDGET_CACHE_DIR")
    if named:
        return Path(named).absolute()
    base = environment.get("XDG_CACHE_HOME", "")
    # a path that is not absolute is to be ignored (XDG Base Directory Specification 0.8)
    home = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~"), ".cache")
    return home / "pytest-membudget"


def most_bytes(environment: Mapping[str, str]) -> int:
    """The size of the cache in bytes; a ``MEMBUDGET_CACHE_MIB`` that is not a number is ignored."""
    text = environment.get("MEMBUDGET_CACHE_MIB", "")
    return int(text) * MIB if text.isascii() and text.isdigit() else MOST_BYTES


def has_entries(environment: Mapping[str, str]) -> bool:
    """Whether any estimate was ever cached."""
    return (cache_folder(environment) / _ENTRIES).is_dir()


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached estimate: its path and dependencies, and the worker's answer."""

    path: Path
    depends: Mapping[str, Any]
    answer: dict[str, Any]


class Store:
    """Entries below ``folder``. Reading never raises; writing raises ``OSError``."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self.folder = folder
        self._folder = folder / _ENTRIES
        self._most_bytes = most

    def entries(self, key: str) -> Iterator[Entry]:
        """The entries of ``key``, the most recently used first; damaged ones are left out."""
        for _, _, path in _newest_first(self._folder / key):
            with contextlib.suppress(OSError, zlib.error, ValueError, TypeError):
                yield Entry(path, **json.loads(zlib.decompress(path.read_bytes())))

    def used(self, entry: Entry) -> None:
        """Record that ``entry`` was used now; ignored if the folder is not writable."""
        with contextlib.suppress(OSError):
            os.utime(entry.path)

    def keep(self, key: str, depends: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Store ``answer``; it replaces one with the same dependencies."""
        folder = self._folder / key
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{digest_of(depends)}.estimate") as file:
            file.write(zlib.compress(json.dumps({"depends": depends, "answer": answer}).encode()))
        _remove(_newest_first(folder)[_MOST_STATES:])

    def trim(self) -> None:
        """Remove the least recently used entries, if the cache is over its size."""
        found = _newest_first(self._folder)
        sums = list(itertools.accumulate(size for _, size, _ in found))
        if sums and sums[-1] > self._most_bytes:
            left_bytes = self._most_bytes * _KEPT_SHARE
            _remove(found[bisect.bisect_right(sums, left_bytes) :])


def _newest_first(folder: Path) -> list[tuple[int, int, Path]]:
    """Time of use, size and path of all files, with unfinished ones of processes that have died."""
    found: list[tuple[int, int, Path]] = []
    for path in folder.rglob("*.*"):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    return sorted(found, reverse=True)


def _remove(files: Iterable[tuple[int, int, Path]]) -> None:
    for _, _, path in files:
        with contextlib.suppress(OSError):
            path.unlink()
