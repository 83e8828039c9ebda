"""One test beside its base: what has become of it, and whether that is allowed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..budgets.growth import Growth, parse_growth
from ..budgets.settings import FAKE, STAND_IN
from ..budgets.verdict import ERROR, OVER, SKIPPED
from ..reporting.rows import peak_bytes, worst_estimate, worst_measurement
from ..reporting.statuses import (
    EXPIRED,
    GROWN,
    NEW,
    NEW_OVER,
    NOT_COMPARABLE,
    SHRUNK,
    STILL_OVER,
    UNCHANGED,
    WAIVED,
)
from ..units import GIB, gib_text
from .base import Facts
from .waivers import Waiver

#: A test that takes less by more than this share of its base's figure could have a tighter budget.
_SHRUNK_SHARE = 0.01
#: Digits of a suggested budget: enough that one step is a tenth of it at most.
_DIGITS = 2
#: What estimates are made on, as the user is told of it.
_DEVICES: Final = {FAKE: "fake tensors", STAND_IN: "the stand-in"}

Figure = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """What has become of one test since the base."""

    status: str
    reason: str = ""
    base: Figure | None = None
    """The base's figure, where the two can be compared."""
    head: Figure | None = None
    suggested_gib: float | None = None

    @property
    def growth_bytes(self) -> int:
        """What the head takes more than the base; 0 where they cannot be compared."""
        if self.base is None or self.head is None:
            return 0
        return peak_bytes(self.head) - peak_bytes(self.base)


def standing_of(
    head: Mapping[str, Any],
    base: Mapping[str, Any] | None,
    facts: tuple[Facts, Facts],
    trouble: str = "",
) -> Standing:
    """The row ``head`` beside ``base``, the same test's there, if it has one.

    ``facts``: what the head's figures and the base's were made with. ``trouble``: why there is no base's.
    """
    figure = _figures(head)[-1] if _figures(head) else None
    if trouble:
        return Standing(NOT_COMPARABLE, trouble, head=figure)
    if base is None:
        status = NEW_OVER if head["verdict"] == OVER else NEW
        return Standing(status, "the base does not have this test", head=figure)
    pair = _comparable(head, base, facts)
    if isinstance(pair, str):
        return Standing(NOT_COMPARABLE, pair, head=figure)
    return _compared(head, base, *pair)


def _compared(
    head: Mapping[str, Any], base: Mapping[str, Any], head_figure: Figure, base_figure: Figure
) -> Standing:
    growth_bytes = peak_bytes(head_figure) - peak_bytes(base_figure)
    text = growth_text(growth_bytes, peak_bytes(base_figure))
    was_over, written = base["verdict"] == OVER, (head["budget"] or {}).get("max_growth")
    if head["verdict"] == OVER and not was_over:
        return Standing(
            NEW_OVER, text if growth_bytes else "its budget was larger at the base", base_figure, head_figure
        )
    allowed = parse_growth(written) if written is not None else None
    limit = _limit(allowed, was_over and head["verdict"] == OVER, peak_bytes(base_figure))
    if limit is not None and growth_bytes > limit:
        return Standing(GROWN, _beyond(text, written), base_figure, head_figure)
    if head["verdict"] == OVER:
        return Standing(STILL_OVER, f"over budget at the base too; {text}", base_figure, head_figure)
    if -growth_bytes > peak_bytes(base_figure) * _SHRUNK_SHARE:
        return Standing(SHRUNK, text, base_figure, head_figure, _tighter(head, head_figure))
    return Standing(UNCHANGED, _allowed(text, written) if growth_bytes else "", base_figure, head_figure)


def _limit(allowed: Growth | None, is_over: bool, base_bytes: int) -> int | None:
    """The growth that is allowed; None for any. What is over budget already may not grow unless told."""
    if allowed is not None:
        return allowed.allowed_bytes(base_bytes)
    return 0 if is_over else None


def _beyond(text: str, written: str | None) -> str:
    if written is None:
        return f"over budget at the base already, and {text}"
    return f"{text}; max_growth={written!r} allows less"


def _allowed(text: str, written: str | None) -> str:
    return f"{text}, which max_growth={written!r} allows" if written is not None else text


def with_waiver(
    standing: Standing | None, head: Mapping[str, Any], waiver: Waiver | None, today: datetime.date
) -> Standing | None:
    """``standing`` as ``waiver`` lets it be: it is looked at only where the test would fail or is over."""
    fails = standing.status in (NEW_OVER, GROWN, STILL_OVER) if standing is not None else False
    if waiver is None or not (fails or head["verdict"] == OVER):
        return standing
    figures = _figures(head)
    known = standing or Standing(NEW_OVER, head=figures[-1] if figures else None)
    peak = peak_bytes(known.head) if known.head is not None else 0
    if peak > waiver.ceiling_bytes:
        more = gib_text(peak - waiver.ceiling_bytes)
        reason = f"{more} above the ceiling of its waiver, {waiver.ceiling_gib:g} GiB"
        return _as(known, known.status, "; ".join(filter(None, (known.reason, reason))))
    if waiver.has_expired(today):
        return _as(known, EXPIRED, f"its waiver ({waiver.reason}) expired on {waiver.expires}")
    return _as(known, WAIVED, f"{waiver.reason} (up to {waiver.ceiling_gib:g} GiB until {waiver.expires})")


def _as(standing: Standing, status: str, reason: str) -> Standing:
    return Standing(status, reason, standing.base, standing.head, standing.suggested_gib)


def growth_text(growth_bytes: int, base_bytes: int) -> str:
    """``takes 1.20 GiB (4.1%) more than at the base``."""
    if not growth_bytes:
        return "takes what it took at the base"
    share = f" ({abs(growth_bytes) / base_bytes:.1%})" if base_bytes else ""
    word = "more" if growth_bytes > 0 else "less"
    return f"takes {gib_text(abs(growth_bytes))}{share} {word} than at the base"


def _tighter(head: Mapping[str, Any], figure: Figure) -> float | None:
    """The budget of two digits that would be enough, if it is less than the one there is."""
    gib = (head["budget"] or {}).get("gib")
    peak = peak_bytes(figure) / GIB
    if gib is None or not peak:
        return None
    step = 10.0 ** (math.floor(math.log10(peak)) + 1 - _DIGITS)
    suggested = float(f"{math.ceil(peak / step) * step:.12g}")
    return suggested if suggested < gib else None


def _figures(row: Mapping[str, Any]) -> list[Figure]:
    """The figures of a row, of the rank that takes most: the estimate, then the measurement."""
    found = (worst_estimate(row), worst_measurement(row))
    return [figure for figure in found if figure is not None and peak_bytes(figure)]


def _comparable(
    head: Mapping[str, Any], base: Mapping[str, Any], facts: tuple[Facts, Facts]
) -> tuple[Figure, Figure] | str:
    """The two figures to compare, the head's first; or why there are none."""
    if base["verdict"] in (ERROR, SKIPPED):
        what = "could not be estimated" if base["verdict"] == ERROR else "was skipped"
        return f"at the base it {what}: {base['reason']}"
    heads = {figure["kind"]: figure for figure in _figures(head)}
    bases = {figure["kind"]: figure for figure in _figures(base)}
    # what was measured is the truth, where both were
    kinds = [kind for kind in ("measured", *heads) if kind in heads and kind in bases]
    if not heads and not bases:
        return "neither takes memory on a GPU, which is what is compared"
    if not kinds:
        return f"the head's figure is {_listed(heads)}, the base's is {_listed(bases)}"
    figures = heads[kinds[0]], bases[kinds[0]]
    return _setting_differs(head, base) or _maker_differs(head, base, facts, figures) or figures


def _setting_differs(head: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    ours, theirs = head["budget"] or {}, base["budget"] or {}
    for key, default in (("metric", "allocated"), ("gpus", 1), ("gpu", None), ("ranks", None)):
        now, before = ours.get(key, default), theirs.get(key, default)
        if now != before:
            return f"the base's {key} is {before!r}, the head's is {now!r}"
    return ""


def _maker_differs(
    head: Mapping[str, Any],
    base: Mapping[str, Any],
    facts: tuple[Facts, Facts],
    figures: tuple[Figure, Figure],
) -> str:
    ours, theirs = facts
    if figures[0]["metric"] != figures[1]["metric"]:
        return f"the base's metric is {figures[1]['metric']}, the head's is {figures[0]['metric']}"
    if figures[0]["kind"] == "measured":
        now, before = head.get("measured_on"), base.get("measured_on")
        if now is None or now != before:
            return f"the base was measured on {before or 'a card it does not name'}, the head on {now}"
        if theirs.torch is None or theirs.alloc_conf is None:
            return "the base's report does not say which torch and allocator settings it was measured with"
    now, before = (_device_of(figure) for figure in figures)
    if now != before:
        return f"the base was estimated on {before}, the head on {now}: give both the same --membudget-device"
    if theirs.torch is not None and theirs.torch != ours.torch:
        return f"the base's torch is {theirs.torch}, the head's is {ours.torch}"
    if theirs.alloc_conf is not None and theirs.alloc_conf != ours.alloc_conf:
        return f"the base's allocator settings are {theirs.alloc_conf!r}, the head's are {ours.alloc_conf!r}"
    return ""


def _device_of(figure: Figure) -> str:
    """What an estimate was made on; reports that do not say are from versions with fake tensors alone."""
    name = figure.get("device") or (FAKE if figure["kind"] == "traced" else "")
    return _DEVICES.get(str(name), "")


def _listed(figures: Mapping[str, Figure]) -> str:
    return " and ".join(figures) if figures else "missing"
