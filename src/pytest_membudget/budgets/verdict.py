"""Verdict: compares a test's reports with its budget; within, over, undecided, error or skipped, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..hardware.machines import Machine
from ..memory_report import MemoryReport
from ..units import GIB, bytes_of_gib, gib_text
from .budget import Budget

WITHIN = "within"
OVER = "over"
UNDECIDED = "undecided"
UNSET = "unset"
ERROR = "error"
SKIPPED = "skipped"
VERDICTS = (WITHIN, OVER, UNDECIDED, UNSET, ERROR, SKIPPED)

#: A test that takes no GPU memory, and has no mark: what ``--membudget=all`` selects need not have a budget.
NO_MEMORY = "no GPU memory"
#: Why a budget of GPU memory has nothing to check.
NOTHING_ALLOCATED = (
    "the test allocated nothing on cuda, so its budget checked nothing; "
    "put the model and its inputs on device 'cuda'"
)

OUT_OF_MEMORY = "out_of_memory"
#: Outcomes of a worker's answer that have a figure; other tests that run at the same time do not change it.
FIGURES = ("traced", OUT_OF_MEMORY)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of ``VERDICTS``, with the reason in one line.

    ``undecided``: the figure is within, and with its margin it is over; ``unset``: there is a figure, and no
    limit; ``error``: there is no figure.
    """

    name: str
    reason: str
    rank: int | None = None
    """Of several ranks, the one that decides the verdict."""


def judge(budget: Budget, reports: Sequence[MemoryReport], machine: Machine | None = None) -> Verdict:
    """Compare every report with ``budget``, and ``machine`` with its ``host_gib``; the worst decides.

    No report, or one in which nothing was allocated, is an error: a budget that checked nothing never passes.
    Without a limit the verdict is ``unset``.
    """
    limit_bytes = budget.limit_bytes
    unchecked = _unchecked(budget, reports, machine)
    if unchecked is not None:
        return Verdict(ERROR, unchecked)
    worst = max(reports, key=lambda report: report.peak_bytes)
    others = (budget.host_gib, budget.held_gib, budget.components or None)
    if limit_bytes is None and all(limit is None for limit in others):
        return _of_rank(budget, worst, UNSET, _unset_text(budget, worst))
    if limit_bytes is not None and worst.peak_bytes > limit_bytes:
        excess = gib_text(worst.peak_bytes - limit_bytes)
        reason = f"{excess} over its budget of {_limit_text(budget, limit_bytes)}"
        return _of_rank(budget, worst, OVER, reason)
    over = _component_over(budget, reports) or _held_over(budget, reports) or _host_over(budget, machine)
    return over or _undecided(budget, reports, machine) or _within(budget, worst, limit_bytes, machine)


def _undecided(budget: Budget, reports: Sequence[MemoryReport], machine: Machine | None) -> Verdict | None:
    """The first part of ``budget`` that a report keeps to, and with its margin does not."""
    for report in sorted(reports, key=lambda one: one.bound_bytes(one.peak_bytes), reverse=True):
        limits = [(report.metric, report.peak_bytes, budget.limit_bytes)]
        limits += [
            (name, report.components[name], bytes_of_gib(gib)) for name, gib in budget.components.items()
        ]
        if budget.host_gib is not None and machine is not None:
            limits.append(("host memory", machine.host_bytes, bytes_of_gib(budget.host_gib)))
        for name, size_bytes, limit_bytes in limits:
            most_bytes = report.bound_bytes(size_bytes)
            if limit_bytes is not None and most_bytes > limit_bytes:
                margin = f"up to {gib_text(most_bytes)} with its margin of {report.margin:.0%}"
                between = f"its budget of {gib_text(limit_bytes)} is between"
                reason = f"{name} {gib_text(size_bytes)}, {margin}: {between}"
                return _of_rank(budget, report, UNDECIDED, reason)
    return None


def _unchecked(budget: Budget, reports: Sequence[MemoryReport], machine: Machine | None) -> str | None:
    """Why a part of ``budget`` has nothing to check; None if every part has."""
    if not reports:
        return "no estimate: nothing was checked"
    if budget.is_of_card and all(report.peak["allocated"] == 0 for report in reports):
        return NOTHING_ALLOCATED
    if budget.host_gib is not None and (machine is None or not machine.host_bytes):
        return (
            f"the test held nothing in host memory, so host_gib={budget.host_gib:g} checked nothing; "
            "offload to the host what it is for, or leave host_gib out"
        )
    if budget.held_gib is not None and any(report.held_bytes is None for report in reports):
        return (
            "it is not known what is held when the body ends, so "
            f"held_gib={budget.held_gib:g} checked nothing: it is for tests that are run, whose body returns"
        )
    return None


def suggested_gib(size_bytes: int) -> float:
    """A budget for a test that takes ``size_bytes``: the next GiB of two digits, at most a tenth more."""
    if size_bytes <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(size_bytes / GIB)) - 1)
    return float(f"{math.ceil(size_bytes / GIB / step) * step:.12g}")


def _unset_text(budget: Budget, worst: MemoryReport) -> str:
    size = gib_text(worst.peak_bytes)
    if budget.max_growth is None:
        return f"takes {size}, and nothing limits it"
    return (
        f"takes {size}, and its max_growth of {budget.max_growth} alone checks nothing without a base "
        "(--membudget-compare=REF)"
    )


def _component_over(budget: Budget, reports: Sequence[MemoryReport]) -> Verdict | None:
    """The first component over its budget, on the rank where it is largest."""
    for component, gib in budget.components.items():
        worst = max(reports, key=lambda report: report.components[component])
        excess_bytes = worst.components[component] - bytes_of_gib(gib)
        if excess_bytes > 0:
            reason = f"{component} {gib_text(excess_bytes)} over their budget of {gib:g} GiB"
            return _of_rank(budget, worst, OVER, reason)
    return None


def _held_over(budget: Budget, reports: Sequence[MemoryReport]) -> Verdict | None:
    """What is held when the body has ended is over its budget, on the rank that holds most."""
    if budget.held_gib is None:
        return None
    worst = max(reports, key=lambda report: report.held_bytes or 0)
    held_bytes, limit_bytes = worst.held_bytes or 0, bytes_of_gib(budget.held_gib)
    if held_bytes <= limit_bytes:
        return None
    held = f"{gib_text(held_bytes)} still held when the body ends"
    excess = gib_text(held_bytes - limit_bytes)
    reason = f"{held}, {excess} over its budget of {budget.held_gib:g} GiB"
    return _of_rank(budget, worst, OVER, reason)


def _host_over(budget: Budget, machine: Machine | None) -> Verdict | None:
    if budget.host_gib is None or machine is None:
        return None
    excess_bytes = machine.host_bytes - bytes_of_gib(budget.host_gib)
    if excess_bytes <= 0:
        return None
    reason = f"host memory {gib_text(excess_bytes)} over its budget of {budget.host_gib:g} GiB a machine"
    if machine.last_rank > machine.first_rank:
        ranks = f"ranks {machine.first_rank} to {machine.last_rank}"
        reason += f": {ranks} of one hold {gib_text(machine.host_bytes)} together"
    return Verdict(OVER, reason)


def _within(budget: Budget, worst: MemoryReport, limit_bytes: int | None, machine: Machine | None) -> Verdict:
    host = ""
    if budget.host_gib is not None and machine is not None:
        share = machine.host_bytes / bytes_of_gib(budget.host_gib)
        host = f"host memory {share:.0%} of its budget of {budget.host_gib:g} GiB a machine"
    if limit_bytes is not None:
        share = worst.peak_bytes / limit_bytes
        text = f"{share:.0%} of its budget of {_limit_text(budget, limit_bytes)}"
        return _of_rank(budget, worst, WITHIN, f"{text}; {host}" if host else text)
    components = "all components within their budgets" if budget.components else ""
    held = "what is held within its budget" if budget.held_gib is not None else ""
    return Verdict(WITHIN, "; ".join(filter(None, (components, held, host))))


def _of_rank(budget: Budget, report: MemoryReport, name: str, reason: str) -> Verdict:
    if budget.gpus == 1:
        return Verdict(name, reason)
    return Verdict(name, f"rank {report.rank} of {budget.gpus}: {reason}", report.rank)


def _limit_text(budget: Budget, limit_bytes: int) -> str:
    if budget.gib is not None:
        return f"{budget.gib:g} GiB"
    return f"{limit_bytes / GIB:.2f} GiB, what {budget.gpu} can hold"
