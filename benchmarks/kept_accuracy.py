"""The estimates that ``benchmarks/results/accuracy.json`` keeps: the accuracy page is made of them.

Measured figures, sources and explanations are not in it: they are in ``benchmarks/published``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .accuracy_runs import DEVICES, DeviceRun
from .comparison import Comparison, published_comparison
from .published_figures import Published

FILE = Path(__file__).parent / "results" / "accuracy.json"


@dataclass(frozen=True, slots=True)
class KeptRun:
    """The estimates of one device."""

    device: str
    torch: str
    cudnn: str
    estimated_bytes: Mapping[str, Mapping[str, float]]
    """By case and metric."""
    troubles: Sequence[str] = ()
    """Cases without a figure, and why."""
    remark: str = ""
    """Where the figures are not those of one plain run."""

    def run(self) -> DeviceRun:
        """What the page says of it."""
        return DeviceRun(self.device, self.torch, self.cudnn, ())


@dataclass(slots=True)
class KeptAccuracy:
    """The runs of all devices."""

    runs: list[KeptRun] = field(default_factory=list)

    def add(self, run: DeviceRun, comparisons: Iterable[Comparison], troubles: Iterable[str]) -> None:
        """Keep ``run`` in place of an earlier one on the same device."""
        estimated: dict[str, dict[str, float]] = {}
        for one in comparisons:
            if one.device == run.device:
                estimated.setdefault(one.case, {})[one.metric] = one.estimate_bytes
        own = [trouble for trouble in troubles if trouble.startswith(f"{run.device}: ")]
        others = [kept for kept in self.runs if kept.device != run.device]
        new = KeptRun(run.device, run.torch, run.cudnn, estimated, own)
        self.runs = sorted([*others, new], key=lambda kept: DEVICES.index(kept.device))

    def comparisons(self, published: Sequence[Published]) -> list[Comparison]:
        """The kept estimates with the published figures, device by device."""
        return [
            published_comparison(entry, metric, run.estimated_bytes[entry.id][metric], measured, run.device)
            for run in self.runs
            for entry in published
            for metric, measured in entry.measured_bytes.items()
            if metric in run.estimated_bytes.get(entry.id, {})
        ]

    def troubles(self) -> list[str]:
        """Of all devices."""
        return [trouble for run in self.runs for trouble in run.troubles]


def read_kept(path: Path = FILE) -> KeptAccuracy:
    """What is kept; nothing where there is no file."""
    if not path.exists():
        return KeptAccuracy()
    content = json.loads(path.read_text(encoding="utf-8"))
    return KeptAccuracy([KeptRun(**run) for run in content["runs"]])


def write_kept(kept: KeptAccuracy, path: Path = FILE) -> None:
    """A line for each case, so that a change shows as the lines that changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = ",\n".join(_run_text(dataclasses.asdict(run)) for run in kept.runs)
    path.write_text(f'{{"runs": [\n{runs}\n]}}\n', encoding="utf-8")


def _run_text(run: dict[str, Any]) -> str:
    cases = run.pop("estimated_bytes")
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(figures)}" for case, figures in cases.items())
    return f'{json.dumps(run)[:-1]}, "estimated_bytes": {{\n{lines}\n}}}}'
