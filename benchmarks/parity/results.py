"""What a run leaves: for each part a short file, which the page is made of, and a long one."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .comparing import Difference

FOLDER = Path(__file__).parent / "results"
#: Of an example's sizes.
_SIZES = 8


@dataclass(frozen=True, slots=True)
class Row:
    """The differences of one kind in one piece of work, with the one that is largest in bytes."""

    work: str
    phase: str
    fault: str
    samples: int
    """How many samples differ so."""
    example: Difference

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        example = dataclasses.asdict(self.example)
        for name in ("work", "phase", "fault"):
            del example[name]
        for name in ("only_stand_in", "only_fake"):
            example[name] = example[name][:_SIZES]
        own = {"work": self.work, "phase": self.phase, "fault": self.fault, "samples": self.samples}
        return {**own, "example": example}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """The inverse of ``to_json``, but for sizes that were cut."""
        given = {**data["example"], **{name: data[name] for name in ("work", "phase", "fault")}}
        for name in ("only_stand_in", "only_fake"):
            given[name] = tuple(given[name])
        return cls(data["work"], data["phase"], data["fault"], data["samples"], Difference(**given))


@dataclass(slots=True)
class Part:
    """One part of the comparison, of which a run may have done some."""

    name: str
    versions: dict[str, str] = field(default_factory=dict)
    """What ran: torch, the card, and the libraries."""
    counts: dict[str, int] = field(default_factory=dict)
    """Pieces of work by name: how many samples each had."""
    rows: list[Row] = field(default_factory=list)
    failed_on_both: dict[str, int] = field(default_factory=dict)
    """Samples that end with an error on both devices, by pieces of work that have some."""

    def add(self, work: str, samples: int, differences: Sequence[Difference], failed_on_both: int) -> None:
        """Put ``work`` in, in place of what an earlier run found of it."""
        self.rows = [row for row in self.rows if row.work != work]
        self.counts[work] = samples
        self.failed_on_both.pop(work, None)
        if failed_on_both:
            self.failed_on_both[work] = failed_on_both
        self.rows += rows_of(differences)

    def write(self, folder: Path) -> None:
        """Keep it, each row on a line, so that a change shows as the lines that changed."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = ",\n".join(json.dumps(row.to_json()) for row in sorted(self.rows, key=_place))
        head = {"versions": self.versions, "failed_on_both": self.failed_on_both, "counts": self.counts}
        text = json.dumps(head)[:-1] + ', "rows": [\n' + rows + "\n]}\n"
        (folder / f"{self.name}.json").write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, name: str) -> Part:
        """What is kept of the part; nothing where it has not been run."""
        try:
            content = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(name)
        rows = [Row.from_json(row) for row in content["rows"]]
        return cls(name, content["versions"], content["counts"], rows, content["failed_on_both"])


def rows_of(differences: Iterable[Difference]) -> list[Row]:
    """One row for each phase and fault of each piece of work."""
    counts: Counter[tuple[str, str, str]] = Counter()
    largest: dict[tuple[str, str, str], Difference] = {}
    for one in differences:
        key = (one.work, one.phase, one.fault)
        counts[key] += 1
        if key not in largest or distance_bytes(one) > distance_bytes(largest[key]):
            largest[key] = one
    return [Row(*key, counts[key], example) for key, example in largest.items()]


def distance_bytes(difference: Difference) -> int:
    """How far apart the two devices are: in their peaks, else in what was requested."""
    peaks_bytes = abs(difference.stand_in_peak_bytes - difference.fake_peak_bytes)
    return peaks_bytes or abs(sum(difference.only_stand_in) - sum(difference.only_fake))


def _place(row: Row) -> tuple[str, str, str]:
    return row.work, row.phase, row.fault
