"""The text of a failed test: the verdict first, then what holds the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..units import gib_text
from .rows import peak_bytes, worst_estimate, worst_measurement
from .side_by_side import side_by_side

#: Holders that a failure names; report.json has more.
_TOP = 10
_WIDTH = 20
#: Arguments of the mark that need not be told.
_DEFAULTS = (("gpus", 1), ("metric", "allocated"))


def failure_text(row: Mapping[str, Any]) -> str:
    """Why ``row``'s test fails, for a person who did not write it."""
    lines = [row["reason"]]
    if row["budget"] is not None:  # else the reason is what is wrong with the mark, and where it stands
        lines.append(f"{row['file']}:{row['line']}: {_marker_text(row['budget'])}")
    if row["details"]:
        lines += ["", row["details"]]
    estimate = worst_estimate(row)
    measurement = worst_measurement(row)
    if estimate is not None and measurement is not None:
        lines += ["", *side_by_side(row), "", *_holders(measurement)]
    elif estimate is not None and peak_bytes(estimate):
        lines += ["", *_components(estimate), "", *_holders(estimate)]
    if estimate is not None and peak_bytes(estimate):
        lines += _listed("Taken for granted", estimate["assumptions"])
        lines += _listed("Not modelled", estimate["not_modelled"])
    return "\n".join(lines)


def _marker_text(budget: Mapping[str, Any]) -> str:
    written = [
        f"{name}={value!r}" for name, value in budget.items() if value and (name, value) not in _DEFAULTS
    ]
    return f"mem_budget({', '.join(written)})"


def _components(estimate: Mapping[str, Any]) -> list[str]:
    total = peak_bytes(estimate)
    rows = [(name, size) for name, size in estimate["components"].items() if size]
    lines = [f"Peak {estimate['metric']} ({estimate['kind']}, rank {estimate['rank']}):"]
    lines += [f"  {name:<{_WIDTH}} {gib_text(size):>12}  {size / total:6.1%}" for name, size in rows]
    lines.append(f"  {'= ' + estimate['metric']:<{_WIDTH}} {gib_text(total):>12}")
    return lines


def _holders(estimate: Mapping[str, Any]) -> list[str]:
    lines = ["What holds it:"]
    for holder in estimate["holders"][:_TOP]:
        module = f" {holder['module']}" if holder["module"] else ""
        times = f" x{holder['count']}" if holder["count"] > 1 else ""
        place = holder["location"] or "no line of Python"
        lines.append(
            f"  {gib_text(holder['bytes']):>12}  {holder['component']}{module}{times}"
            f"  {place}  {holder['operator']}"
        )
    rest = estimate["holders"][_TOP:]
    if rest:
        lines.append(f"  {gib_text(sum(holder['bytes'] for holder in rest)):>12}  in {len(rest)} more")
    return lines


def _listed(title: str, texts: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {text}" for text in texts)] if texts else []
