"""The cache's folder: one file for each estimate, written by any number of processes."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic_files import replacing
from ..units import MIB
from .states import digest_of

#: The version of the files' format; another version finds none of these files.
FORMAT = 5
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached estimate: its path and dependencies, the worker's answer, and the test's snapshot."""

    path: Path
    depends: Mapping[str, Any]
    answer: dict[str, Any]
    snapshot: bytes | None


class Store:
    """Entries below ``folder``. Reading never raises; writing raises ``OSError``."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self.folder = folder
        self._folder = folder / f"estimates-{FORMAT}"
        self._most_bytes = most

    def entries(self, key: str) -> Iterator[Entry]:
        """The entries of ``key``, the most recently used first; damaged ones are left out."""
        for _, _, path in _newest_first(self._folder_of(key)):
            entry = _read(path)
            if entry is not None:
                yield entry

    def used(self, entry: Entry) -> None:
        """Record that ``entry`` was used now; ignored if the folder is not writable."""
        with contextlib.suppress(OSError):
            os.utime(entry.path)

    def keep(
        self, key: str, depends: Mapping[str, Any], answer: Mapping[str, Any], snapshot: bytes | None
    ) -> None:
        """Store ``answer``; it replaces one with the same dependencies."""
        folder = self._folder_of(key)
        folder.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"depends": depends, "answer": answer}, separators=(",", ":"))
        with replacing(folder / f"{digest_of(depends)}.estimate") as file:
            file.write(zlib.compress(head.encode() + b"\n" + (snapshot or b"")))
        for _, _, old in _newest_first(folder)[_MOST_STATES:]:
            _remove(old)

    def trim(self) -> None:
        """Remove the least recently used entries, if the cache is over its size."""
        found = _newest_first(self._folder)
        total_bytes = sum(size for _, size, _ in found)
        if total_bytes <= self._most_bytes:
            return
        left_bytes = int(self._most_bytes * _KEPT_SHARE)
        while found and total_bytes > left_bytes:
            _, size, path = found.pop()
            _remove(path)
            total_bytes -= size

    def _folder_of(self, key: str) -> Path:
        return self._folder / key[:2] / key


def _newest_first(folder: Path) -> list[tuple[int, int, Path]]:
    """Time of use, size and path of all files, with unfinished ones of processes that have died."""
    found: list[tuple[int, int, Path]] = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
    return sorted(found, reverse=True)


def _read(path: Path) -> Entry | None:
    """The entry at ``path``; None if it is damaged, as its checksum shows, or not ours."""
    try:
        head, _, snapshot = zlib.decompress(path.read_bytes()).partition(b"\n")
        return Entry(path, **json.loads(head), snapshot=snapshot or None)
    except (OSError, zlib.error, ValueError, TypeError):
        return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
