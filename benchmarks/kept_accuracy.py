"""The estimates that ``benchmarks/results/accuracy.json`` keeps: the accuracy page is made of them.

Measured figures, sources and explanations are not in it: they are in ``benchmarks/published``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .accuracy_runs import CasesRun
from .comparison import Comparison, published_comparison
from .published_figures import Published

FILE = Path(__file__).parent / "results" / "accuracy.json"


@dataclass(frozen=True, slots=True)
class KeptAccuracy:
    """The estimates of a whole run."""

    torch: str
    cudnn: str
    estimated_bytes: Mapping[str, Mapping[str, float]]
    """By case and metric."""
    troubles: Sequence[str] = ()
    """Cases without a figure, and why."""

    def run(self) -> CasesRun:
        """What the page says of it."""
        return CasesRun(self.torch, self.cudnn, ())

    def comparisons(self, published: Sequence[Published]) -> list[Comparison]:
        """The kept estimates with the published figures."""
        return [
            published_comparison(entry, metric, self.estimated_bytes[entry.id][metric], measured)
            for entry in published
            for metric, measured in entry.measured_bytes.items()
            if metric in self.estimated_bytes.get(entry.id, {})
        ]


def kept_of(run: CasesRun, comparisons: Iterable[Comparison], troubles: Sequence[str]) -> KeptAccuracy:
    """What is kept of ``run``."""
    estimated: dict[str, dict[str, float]] = {}
    for one in comparisons:
        estimated.setdefault(one.case, {})[one.metric] = one.estimate_bytes
    return KeptAccuracy(run.torch, run.cudnn, estimated, troubles)


def read_kept(path: Path = FILE) -> KeptAccuracy:
    """What is kept. ``ValueError`` where there is no file."""
    if not path.exists():
        raise ValueError("nothing is kept: run the cases first")
    return KeptAccuracy(**json.loads(path.read_text(encoding="utf-8")))


def write_kept(kept: KeptAccuracy, path: Path = FILE) -> None:
    """A line for each case, so that a change shows as the lines that changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = dataclasses.asdict(kept)
    cases = values.pop("estimated_bytes")
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(figures)}" for case, figures in cases.items())
    text = f'{json.dumps(values)[:-1]}, "estimated_bytes": {{\n{lines}\n}}}}\n'
    path.write_text(text, encoding="utf-8")
