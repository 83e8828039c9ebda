"""How each test of a report stands: what fails, what has changed, what to do first; for every format."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..units import GIB, gib_text
from .document import Document
from .rows import Row, own_estimates, peak_bytes, worst_estimate, worst_measurement
from .statuses import (
    EXPIRED,
    GROWN,
    NEW,
    NEW_OVER,
    NOT_COMPARABLE,
    REMOVED,
    SHRUNK,
    STILL_OVER,
    UNCHANGED,
    WAIVED,
)

FAILURE, WARNING, NOTICE, FINE = "failure", "warning", "notice", "fine"
#: The worst first.
LEVELS = (FAILURE, WARNING, NOTICE, FINE)

#: Makes text that came from code safe for a format.
Code = Callable[[str], str]

_BY_STATUS = {
    NEW_OVER: (FAILURE, "over budget"),
    GROWN: (FAILURE, "grown too much"),
    EXPIRED: (FAILURE, "waiver expired"),
    STILL_OVER: (WARNING, "over since before"),
    NOT_COMPARABLE: (WARNING, "not comparable"),
    WAIVED: (NOTICE, "waived"),
    SHRUNK: (NOTICE, "shrunk"),
    NEW: (NOTICE, "new"),
    REMOVED: (NOTICE, "removed"),
    UNCHANGED: (FINE, "unchanged"),
}
_BY_VERDICT = {
    "over": (FAILURE, "over budget"),
    "error": (FAILURE, "not checked"),
    "skipped": (NOTICE, "skipped"),
    "within": (FINE, "within budget"),
}
#: Statuses that say themselves what an estimate over budget means.
_KNOW_OVER = (NEW_OVER, GROWN, EXPIRED, STILL_OVER, WAIVED)


@dataclass(frozen=True, slots=True)
class Standing:
    """One test: how bad it is, in a word, with its row."""

    row: Row
    level: str
    word: str

    @property
    def status(self) -> str | None:
        """Its status beside the base; None without one."""
        comparison = self.row["comparison"]
        return comparison["status"] if comparison is not None else None

    @property
    def figure(self) -> Mapping[str, Any] | None:
        """The figure of the rank that takes most: measured where it was, else the estimate's."""
        found = worst_measurement(self.row) or worst_estimate(self.row)
        return found if found is not None and peak_bytes(found) else None

    @property
    def peak_bytes(self) -> int | None:
        """The peak of that figure."""
        return peak_bytes(self.figure) if self.figure is not None else None

    @property
    def excess_bytes(self) -> int:
        """What the peak has over the budget; 0 if it is within, or if there is none."""
        limit = self.row["limit_bytes"]
        return max(0, (self.peak_bytes or 0) - limit) if limit is not None else 0

    @property
    def growth_bytes(self) -> int:
        """What it has grown by since the base."""
        comparison = self.row["comparison"]
        return int(comparison["growth_bytes"]) if comparison is not None else 0

    @property
    def is_listed(self) -> bool:
        """Whether a reader has to see it; the others are folded away."""
        return self.level != FINE


def standings(document: Document) -> list[Standing]:
    """Every test of ``document``, the worst first."""
    found = [_standing(row) for row in document["tests"]]
    return sorted(found, key=lambda one: (LEVELS.index(one.level), -_weight(one), one.row["nodeid"]))


def is_notable(document: Document) -> bool:
    """Whether there is anything in ``document`` that a reader has to see."""
    beside = document["comparison"] or {}
    if beside.get("removed") or beside.get("unused_waivers"):
        return True
    return any(one.is_listed for one in standings(document))


def _standing(row: Row) -> Standing:
    verdict, comparison = row["verdict"], row["comparison"]
    level, word = _BY_VERDICT[verdict]
    status = comparison["status"] if comparison is not None else None
    if status is not None and (verdict == "within" or (verdict == "over" and status in _KNOW_OVER)):
        level, word = _BY_STATUS[status]
        if status == UNCHANGED and comparison["growth_bytes"] > 0:
            level, word = NOTICE, "grown, and allowed"
    if row["expected"] and level == FAILURE:
        level, word = FINE, f"{word} (expected)"
    return Standing(row, level, word)


def _weight(one: Standing) -> int:
    return max(one.excess_bytes, abs(one.growth_bytes))


def headline(found: Sequence[Standing]) -> str:
    """The verdict on all of them in a line: how many fail, and by what."""
    if not found:
        return "no test has a memory budget"
    failing = _counted([one for one in found if one.level == FAILURE])
    tests = f"{len(found)} test{'s' if len(found) != 1 else ''}"
    if failing:
        return f"{failing}, of {tests}"
    open_ = _counted([one for one in found if one.level == WARNING])
    return f"{tests}, none fails" + (f"; {open_}" if open_ else "")


def _counted(some: Sequence[Standing]) -> str:
    words = dict.fromkeys(one.word for one in some)
    return ", ".join(f"{sum(one.word == word for one in some)} {word}" for word in words)


def explained(one: Standing, code: Code) -> str:
    """What there is to say of one test; ``code`` wraps what came from code."""
    row, status = one.row, one.status
    said = [text for text in (_budget_text(one, code), _growth_text(one)) if text]
    reason = (row["comparison"] or {}).get("reason", "")
    if row["verdict"] == "error":
        said = [f"Its budget was not checked: {code(row['reason'])}."]
    elif row["verdict"] == "skipped":
        said = [f"Its budget was not checked, the test is skipped: {code(row['reason'])}."]
    elif status in (NOT_COMPARABLE, WAIVED, EXPIRED) and reason:
        said.append(f"{one.word.capitalize()}: {code(reason)}.")
    return " ".join(said)


def _budget_text(one: Standing, code: Code) -> str:
    peak, limit = one.peak_bytes, one.row["limit_bytes"]
    if peak is None or one.figure is None:
        return ""
    figure = one.figure
    on_rank = f" on rank {figure['rank']}" if len(own_estimates(one.row)) > 1 else ""
    takes = f"Takes {gib_text(peak)}{on_rank}"
    if one.excess_bytes:
        return f"{takes}, {gib_text(one.excess_bytes)} over its budget of {gib_text(limit)}."
    if one.row["verdict"] == "over":  # by a component, the host or another figure
        return f"{takes}: {code(one.row['reason'])}."
    return f"{takes} of its budget of {gib_text(limit)}." if limit is not None else f"{takes}."


def _growth_text(one: Standing) -> str:
    base = (one.row["comparison"] or {}).get("base_bytes")
    if base is None or not one.growth_bytes:
        return ""
    word = "more" if one.growth_bytes > 0 else "less"
    return f"That is {gib_text(abs(one.growth_bytes))} {word} than at the base ({gib_text(base)})."


def to_do(one: Standing, code: Code) -> str:
    """What to do about one test; empty if nothing."""
    row, status = one.row, one.status
    if one.level == FINE:
        return ""
    if row["verdict"] == "error":
        return "Make its budget one that can be checked: a budget that was not is a failure."
    if status == SHRUNK:
        suggested = row["comparison"]["suggested_gib"]
        return f"The budget can be tightened to gib={suggested:g}." if suggested is not None else ""
    if status == EXPIRED:
        return "Renew the waiver in [tool.membudget] with a reason, or take the memory off."
    if status == GROWN:
        return f"Undo the growth{_place_of(one, code)}, or allow it: max_growth, or a waiver with a reason."
    if one.excess_bytes and one.level == FAILURE:
        return f"Take {gib_text(one.excess_bytes)} off{_place_of(one, code)}, or {_larger_budget(one)}."
    return ""


def _larger_budget(one: Standing) -> str:
    if (one.row["budget"] or {}).get("gib") is None:
        return "name a larger card"
    return f"write gib={math.ceil((one.peak_bytes or 0) / GIB * 10) / 10:g} with a reason"


def _place_of(one: Standing, code: Code) -> str:
    found = causes(one, 1)
    if not found or not found[0]["location"]:
        return ""
    return f", first at {code(found[0]['location'])}"


def causes(one: Standing, most: int) -> list[Mapping[str, Any]]:
    """What explains it, the largest first: what has changed since the base, else who holds the peak."""
    findings: list[Mapping[str, Any]] = (one.row["comparison"] or {}).get("findings", [])
    if findings:
        return sorted(findings, key=lambda finding: -abs(finding["bytes"]))[:most]
    return list(one.figure["holders"][:most]) if one.figure is not None else []


def cause_text(cause: Mapping[str, Any], code: Code, *, signed: bool) -> str:
    """One of ``causes`` in words."""
    size = gib_text(cause["bytes"])
    parts = [f"+{size}" if signed and cause["bytes"] > 0 else size, cause["component"]]
    if cause["module"]:
        parts.append(f"of {code(cause['module'])}")
    if cause.get("count", 1) > 1:
        parts.append(f"x{cause['count']}")
    parts.append(f"at {code(cause['location'])}" if cause["location"] else "at no line of Python")
    if cause["operator"]:
        parts.append(f"({code(cause['operator'])})")
    moved = cause.get("base_location")
    if moved and moved != cause["location"]:
        parts.append(f"that was at {code(moved)}")
    return " ".join(parts)


def place_in(location: str | None) -> tuple[str, int] | None:
    """File and line of ``src/model.py:41``; None for anything that is no relative path with a line."""
    file, _, line = (location or "").rpartition(":")
    if not file or not (line.isascii() and line.isdecimal()) or len(line) > 9:
        return None
    parts = file.split("/")
    if file.startswith("/") or "\\" in file or ".." in parts or ":" in parts[0]:
        return None
    return file, int(line)
