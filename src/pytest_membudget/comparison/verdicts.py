"""Compares one test with the base: what has changed, and whether that is allowed."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ..budgets.budget import Budget, parse_growth
from ..budgets.verdict import ERROR, OVER, SKIPPED
from ..memory_report import MemoryReport
from ..results.comparison import (
    GROWN,
    NEW,
    NOT_COMPARABLE,
    SHRUNK,
    UNCHANGED,
    BaseFigure,
    Comparison,
    Finding,
    Versions,
    growth_text,
    more_held,
)
from ..results.test_result import TestResult
from ..units import gib_text
from .base.exchange import Facts
from .findings import explained

#: A test that has shrunk by more than this share gets the suggestion of a smaller budget.
_SHRUNK_SHARE = 0.01
#: Distributions with other versions: most that a test names; the session's comparison has all.
_VERSIONS = 5


def compared(
    head: TestResult, base: TestResult | None, facts: tuple[Facts, Facts], trouble: str = ""
) -> Comparison:
    """``head`` compared with ``base``, the result of the same test there, if it has one.

    ``facts``: what the figures of head and base were made with. ``trouble``: why the base has no figure.
    """
    head_bytes = next((figure.peak_bytes for figure in reversed(_figures(head))), None)
    if trouble:
        return Comparison(NOT_COMPARABLE, trouble, bytes=head_bytes)
    if base is None:
        return Comparison(NEW, "the base does not have this test", bytes=head_bytes)
    pair = _comparable(head, base, facts)
    if isinstance(pair, str):
        return Comparison(NOT_COMPARABLE, pair, bytes=head_bytes)
    now, before = pair
    figure = BaseFigure(before.peak_bytes, dict(before.components), before.timeline)
    judged = replace(_judged(head, base, now, before), bytes=now.peak_bytes, base=figure)
    comparison = explained(judged, now, before)
    if not comparison.growth_bytes:
        return comparison
    changes = facts[1].version_changes(facts[0])
    return replace(comparison, distributions=_owners_first(changes, comparison.findings))


def _owners_first(changes: Versions, findings: Sequence[Finding]) -> Versions:
    """The first of ``changes``: of distributions whose packages have lines of ``findings``, then torch's.

    No finding is at a line of torch: it is at the line that called torch.
    """

    def plain(name: str) -> str:  # as packages are named (PEP 503, with underscores)
        return re.sub(r"[-_.]+", "_", name).lower()

    lines = [place for one in findings for place in (one.location, one.base) if place]
    packages = {plain(line.partition("/")[0]) for line in lines}
    order = sorted(changes, key=lambda name: (plain(name) not in packages, name != "torch"))
    return {name: changes[name] for name in order[:_VERSIONS]}


def _judged(
    head: TestResult, base: TestResult, head_figure: MemoryReport, base_figure: MemoryReport
) -> Comparison:
    base_bytes = base_figure.peak_bytes
    growth_bytes = head_figure.peak_bytes - base_bytes
    text = growth_text(growth_bytes, base_bytes)
    is_over, was_over = head.verdict == OVER, base.verdict == OVER
    written = head.budget.max_growth if head.budget is not None else None
    if written is not None and growth_bytes > parse_growth(written).allowed_bytes(base_bytes):
        return Comparison(GROWN, f"{text}; max_growth={written!r} allows less", allowed=False)
    more_bytes = more_held(head_figure.held_bytes, base_figure.held_bytes)
    if written is not None and more_bytes > parse_growth(written).allowed_bytes(base_figure.held_bytes or 0):
        held = f"holds {gib_text(more_bytes)} more than at the base when its body ends"
        return Comparison(GROWN, f"{held}; max_growth={written!r} allows less", allowed=False)
    if written is None and was_over and is_over and growth_bytes > 0:  # over its budget it may not grow
        return Comparison(GROWN, f"over budget at the base already, and {text}", allowed=False)
    status = _status(growth_bytes, base_bytes)
    if is_over and was_over:
        return Comparison(status, f"over budget at the base too; {text}", allowed=True)
    if is_over:
        return Comparison(status, text if growth_bytes else "its budget was larger at the base")
    if status == SHRUNK:
        return Comparison(SHRUNK, text)
    allowed = f", which max_growth={written!r} allows" if written is not None else ""
    return Comparison(status, f"{text}{allowed}" if growth_bytes else "")


def _status(growth_bytes: int, base_bytes: int) -> str:
    if growth_bytes > 0:
        return GROWN
    return SHRUNK if -growth_bytes > base_bytes * _SHRUNK_SHARE else UNCHANGED


def _figures(result: TestResult) -> list[MemoryReport]:
    """The figures of a result, of the rank that takes most: the estimate, then the measurement."""
    found = (result.worst_estimate, result.worst_measurement)
    return [figure for figure in found if figure is not None and figure.peak_bytes]


def _comparable(
    head: TestResult, base: TestResult, facts: tuple[Facts, Facts]
) -> tuple[MemoryReport, MemoryReport] | str:
    """The two figures to compare, the head's first; or why there are none."""
    verdict = base.without_strict or base.verdict
    if verdict in (ERROR, SKIPPED):
        what = "could not be estimated" if verdict == ERROR else "was skipped"
        return f"at the base it {what}: {base.reason}"
    heads = {figure.kind: figure for figure in _figures(head)}
    bases = {figure.kind: figure for figure in _figures(base)}
    # measurements, if both sides have one
    kinds = [kind for kind in ("measured", *heads) if kind in heads and kind in bases]
    if not heads and not bases:
        return "neither takes memory on a GPU, which is what is compared"
    if not kinds:
        now, before = (" and ".join(figures) or "missing" for figures in (heads, bases))
        return f"the head's figure is {now}, the base's is {before}"
    for name in ("metric", "gpus", "gpu"):
        now, before = (getattr(result.budget or Budget(), name) for result in (head, base))
        if now != before:
            return f"the base's {name} is {before!r}, the head's is {now!r}"
    figures = heads[kinds[0]], bases[kinds[0]]
    return _maker_differs(facts, figures) or figures


def _maker_differs(facts: tuple[Facts, Facts], figures: tuple[MemoryReport, MemoryReport]) -> str:
    (ours, theirs), (now, before) = facts, figures
    if now.metric != before.metric:
        return f"the base's metric is {before.metric}, the head's is {now.metric}"
    if now.kind == "measured":
        if now.device != before.device:
            return f"the base was measured on {before.device}, the head on {now.device}"
        if theirs.torch is None or theirs.alloc_conf is None:
            return "the base's report does not say which torch and allocator settings it was measured with"
    if now.kind == "traced" and now.device != before.device:
        return "the base was estimated by a version of pytest-membudget that had another device"
    if theirs.torch is not None and theirs.torch != ours.torch and not theirs.is_environment:
        return f"the base's torch is {theirs.torch}, the head's is {ours.torch}"
    if theirs.alloc_conf is not None and theirs.alloc_conf != ours.alloc_conf:
        return f"the base's allocator settings are {theirs.alloc_conf!r}, the head's are {ours.alloc_conf!r}"
    return ""
