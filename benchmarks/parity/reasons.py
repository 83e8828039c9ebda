"""Why the two devices differ: reasons that somebody has written down, and the rows that each explains."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results import Row

FILE = Path(__file__).with_name("reasons.yaml")
_FIELDS = {"reason", "works", "phase", "fault", "sizes_bytes", "note"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, and which rows it explains: those that all of its conditions hold for."""

    text: str
    works: tuple[str, ...] = ("*",)
    """Patterns, one of which the operator's or step's name matches."""
    phase: str = ""
    fault: str = ""
    sizes_bytes: tuple[int, ...] = ()
    """All that the row's example has on one side only is of these sizes."""
    note: str = ""
    """A part of the example's note."""

    def explains(self, row: Row) -> bool:
        """Whether it is the reason of ``row``."""
        apart = (*row.example.only_stand_in, *row.example.only_fake)
        return (
            any(fnmatch.fnmatchcase(row.work, pattern) for pattern in self.works)
            and self.phase in ("", row.phase)
            and self.fault in ("", row.fault)
            and self.note in row.example.note
            and (not self.sizes_bytes or (bool(apart) and set(apart) <= set(self.sizes_bytes)))
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that one reason explains, of one fault."""

    reason: str
    """Empty where nobody has looked into them."""
    fault: str
    rows: tuple[Row, ...]

    @property
    def samples(self) -> int:
        """How many samples differ."""
        return sum(row.samples for row in self.rows)


def read_reasons(path: Path = FILE) -> list[Reason]:
    """The reasons of the file, in its order. ``ValueError`` for a field that there is not."""
    import yaml

    return [_reason(entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def _reason(entry: Mapping[str, Any]) -> Reason:
    unknown = sorted(set(entry) - _FIELDS)
    if unknown:
        raise ValueError(f"{FILE.name}: {unknown[0]} is none of {', '.join(sorted(_FIELDS))}")
    return Reason(
        entry["reason"],
        tuple(entry.get("works", ("*",))),
        entry.get("phase", ""),
        entry.get("fault", ""),
        tuple(entry.get("sizes_bytes", ())),
        entry.get("note", ""),
    )


def grouped(rows: Sequence[Row], reasons: Sequence[Reason]) -> list[Group]:
    """The rows by reason and fault, in the order of the reasons; what has none comes last."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        number = next((at for at, reason in enumerate(reasons) if reason.explains(row)), len(reasons))
        groups.setdefault((number, row.fault), []).append(row)
    texts = [*(reason.text for reason in reasons), ""]
    return [Group(texts[number], fault, tuple(groups[number, fault])) for number, fault in sorted(groups)]
