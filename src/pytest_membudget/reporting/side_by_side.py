"""Estimate and measurement of one test, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..units import gib_text
from .rows import compared, gpus_of, peak_bytes, ratio_of

_WIDTH = 20
#: Components that a disagreement names.
_NAMED = 3


def side_by_side(row: Mapping[str, Any]) -> list[str]:
    """A table of ``row``, which has both: estimate, measurement and their ratio."""
    both = compared(row)
    assert both is not None
    estimate, measurement = both
    metric = measurement["metric"]
    rows = [
        (name, estimate["components"].get(name, 0), size)
        for name, size in measurement["components"].items()
        if size or estimate["components"].get(name)
    ]
    rows.append((f"= {metric}", peak_bytes(estimate), peak_bytes(measurement)))
    of_all = f" of {gpus_of(row)}" if gpus_of(row) > 1 else ""
    beside = "" if estimate["rank"] == measurement["rank"] else f", estimated on rank {estimate['rank']}"
    lines = [
        f"Peak {metric} (rank {measurement['rank']}{of_all}{beside}):",
        f"  {'':<{_WIDTH}} {'estimate':>12} {'measured':>12}  ratio",
    ]
    for name, estimated, measured in rows:
        ratio = f"{estimated / measured:6.3f}" if measured else "      "
        lines.append(f"  {name:<{_WIDTH}} {gib_text(estimated):>12} {gib_text(measured):>12} {ratio}")
    return lines


def disagreement(row: Mapping[str, Any], most: float) -> str | None:
    """What to say of a row whose estimate is off by more than the fraction ``most``."""
    ratio = ratio_of(row)
    if ratio is None or abs(ratio - 1) <= most:
        return None
    both = compared(row)
    assert both is not None
    estimate, measurement = both
    differences = {
        name: estimate["components"].get(name, 0) - measurement["components"].get(name, 0)
        for name in {**estimate["components"], **measurement["components"]}
    }
    worst = sorted(differences.items(), key=lambda entry: -abs(entry[1]))[:_NAMED]
    named = ", ".join(
        f"{gib_text(abs(size))} {'more' if size > 0 else 'less'} {name}" for name, size in worst if size
    )
    return (
        f"{row['nodeid']}: estimate {gib_text(peak_bytes(estimate))}, measured "
        f"{gib_text(peak_bytes(measurement))}, ratio {ratio:.3f}; the estimate has {named}"
    )
