"""Measured figures that others have published, as ``benchmarks/published/*.yaml`` has them.

A file is a family of configurations. An entry says where a figure was published and on what it was measured,
and names the test that does the same; or why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: Bytes. GB is 10^9 here; where a source says GB and means 2^30, the entry says GiB.
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 10**9}
_TEXTS = ("id", "source", "gpu", "torch", "grade")
_KEYS = frozenset({*_TEXTS, "test", "unit", "measured", "explained", "not_recreated"})


class EntryError(ValueError):
    """An entry that cannot be read; says file, id and what is wrong."""


@dataclass(frozen=True, slots=True)
class Published:
    """One configuration and what was measured of it."""

    id: str
    family: str
    source: str
    gpu: str
    torch: str
    grade: str
    """A: all that matters is stated; B: some of it had to be assumed."""
    test: str
    """The end of its node id, the parameter id being ``id`` if there is one; empty: there is no test."""
    unit: str
    measured_bytes: Mapping[str, float]
    """By metric: ``allocated``, ``active``, ``reserved``, ``device`` or what the test records as."""
    explained: str = ""
    """What explains the difference."""
    not_recreated: str = ""
    """Why there is no test."""


def read_published(files: Iterable[Path]) -> list[Published]:
    """All entries of ``files``, in order. Raises ``EntryError``."""
    entries: list[Published] = []
    seen: set[str] = set()
    for file in files:
        for data in yaml.safe_load(file.read_text(encoding="utf-8")) or []:
            entry = _entry(data, file)
            if entry.id in seen:
                raise EntryError(f"{file.name}: {entry.id!r} stands there twice")
            seen.add(entry.id)
            entries.append(entry)
    return entries


def _entry(data: Mapping[str, Any], file: Path) -> Published:
    where = f"{file.name}: {data.get('id', 'an entry without id')!r}"
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        raise EntryError(f"{where} has {', '.join(unknown)}; an entry may have {', '.join(sorted(_KEYS))}")
    if ("not_recreated" in data) == ("test" in data):
        raise EntryError(f"{where} needs either `test` or `not_recreated`")
    missing = [key for key in _needed(data) if key not in data]
    if missing:
        raise EntryError(f"{where} lacks {', '.join(missing)}")
    unit = data.get("unit", "B")
    if unit not in UNITS:
        raise EntryError(f"{where} has the unit {unit!r}; write one of {', '.join(UNITS)}")
    texts = {key: str(data.get(key, "")) for key in _TEXTS}
    return Published(
        family=file.stem.replace("_", " "),
        test=str(data.get("test", "")),
        unit=unit,
        measured_bytes={name: value * UNITS[unit] for name, value in data.get("measured", {}).items()},
        explained=str(data.get("explained", "")),
        not_recreated=str(data.get("not_recreated", "")),
        **texts,
    )


def _needed(data: Mapping[str, Any]) -> tuple[str, ...]:
    if "not_recreated" in data:
        return ("id", "source")
    return ("id", "unit", "measured")
