"""Verdict: compares a test's reports with its budget; within, over, undecided, error or skipped, and why."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..hardware.machines import Machine
from ..memory_report import Holder, MemoryReport
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


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a budget, and what is taken of it."""

    argument: str
    """The mark's."""
    of: str
    """Of which memory: ``activations``; empty for the budget's metric."""
    limit_bytes: int
    report: MemoryReport
    """Of the rank that takes most of it."""
    host_bytes: int | None = None
    """Of host memory what the machine holds."""

    @property
    def bytes(self) -> int:
        """What it takes."""
        return self.bytes_in(self.report) if self.host_bytes is None else self.host_bytes

    @property
    def excess_bytes(self) -> int:
        """How much is over the limit; 0 or less if it is within."""
        return self.bytes - self.limit_bytes

    def bytes_in(self, report: MemoryReport) -> int:
        """What ``report`` takes of it."""
        if self.argument == "components":
            return report.components.get(self.of, 0)
        others = {"held_gib": report.held_bytes or 0, "host_gib": report.host_bytes}
        return others.get(self.argument, report.peak_bytes)

    @property
    def holders(self) -> Sequence[Holder]:
        """Who holds that memory."""
        if self.argument == "components":
            return [row for row in self.report.holders if row.component == self.of]
        report = {"held_gib": self.report.held, "host_gib": self.report.host}.get(self.argument, self.report)
        return report.holders if report is not None else ()


def parts_of(
    budget: Budget, reports: Sequence[MemoryReport], host_bytes: int | None = None
) -> Iterator[Part]:
    """The parts of ``budget``, in the order in which they decide; ``host_bytes``: of the fullest machine."""

    def part(argument: str, of: str, limit_bytes: int) -> Part:
        of_ranks = [Part(argument, of, limit_bytes, one) for one in reports]
        return max(of_ranks, key=lambda one: one.bytes)

    if budget.limit_bytes is not None:
        yield part("gib", "", budget.limit_bytes)
    for name, gib in budget.components.items():
        yield part("components", name, bytes_of_gib(gib))
    if budget.held_gib is not None:
        yield part("held_gib", "what is held when the body ends", bytes_of_gib(budget.held_gib))
    if budget.host_gib is not None and host_bytes is not None:
        fullest = part("host_gib", "host memory", bytes_of_gib(budget.host_gib))
        yield replace(fullest, host_bytes=host_bytes)


def judge(budget: Budget, reports: Sequence[MemoryReport], machine: Machine | None = None) -> Verdict:
    """Compare every report with ``budget``, and ``machine`` with its ``host_gib``; the worst decides.

    No report, or one in which nothing was allocated, is an error: a budget that checked nothing never passes.
    Without a limit the verdict is ``unset``.
    """
    unchecked = _unchecked(budget, reports, machine)
    if unchecked is not None:
        return Verdict(ERROR, unchecked)
    worst = max(reports, key=lambda one: one.peak_bytes)
    host_bytes = machine.host_bytes if machine is not None else None
    parts = [*parts_of(budget, reports, host_bytes)]
    if not parts:
        return _of_rank(budget, worst, UNSET, _unset_text(budget, worst))
    over = next((part for part in parts if part.excess_bytes > 0), None)
    if over is not None:
        return _of_part(budget, over, OVER, _over_text(budget, over, machine))
    return _undecided(budget, reports, host_bytes) or _within(budget, parts)


def _undecided(budget: Budget, reports: Sequence[MemoryReport], host_bytes: int | None) -> Verdict | None:
    """The first part of ``budget`` that a report keeps to, and with its margin does not."""
    for report in sorted(reports, key=lambda one: one.bound_bytes(one.peak_bytes), reverse=True):
        for part in parts_of(budget, [report], host_bytes):
            most_bytes = report.bound_bytes(part.bytes)
            if most_bytes > part.limit_bytes:
                margin = f"up to {gib_text(most_bytes)} with its margin of {report.margin:.0%}"
                between = f"its budget of {gib_text(part.limit_bytes)} is between"
                reason = f"{part.of or report.metric} {gib_text(part.bytes)}, {margin}: {between}"
                return _of_part(budget, part, UNDECIDED, reason)
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


def _over_text(budget: Budget, part: Part, machine: Machine | None) -> str:
    excess, limit = gib_text(part.excess_bytes), _limit_text(budget, part)
    if part.argument == "components":
        return f"{part.of} {excess} over their budget of {limit}"
    over = f"{excess} over its budget of {limit}"
    if part.argument == "held_gib":
        return f"{gib_text(part.bytes)} still held when the body ends, {over}"
    if part.argument == "host_gib" and machine is not None and machine.last_rank > machine.first_rank:
        ranks = f"ranks {machine.first_rank} to {machine.last_rank}"
        over += f": {ranks} of one hold {gib_text(part.bytes)} together"
    return f"{part.of} {over}".strip()


def _within(budget: Budget, parts: Sequence[Part]) -> Verdict:
    """With the shares of the metric's budget and the machine's; without the former, what else is within."""
    texts = {
        "components": "all components within their budgets",
        "held_gib": "what is held within its budget",
    }
    for part in parts:
        if part.argument in ("gib", "host_gib"):
            share = f"{part.bytes / part.limit_bytes:.0%} of its budget of {_limit_text(budget, part)}"
            texts[part.argument] = f"{part.of} {share}".strip()
    is_of_metric = parts[0].argument == "gib"
    left_out = ("components", "held_gib") if is_of_metric else ()
    said = dict.fromkeys(part.argument for part in parts if part.argument not in left_out)
    reason = "; ".join(texts[argument] for argument in said)
    return _of_part(budget, parts[0], WITHIN, reason) if is_of_metric else Verdict(WITHIN, reason)


def _of_part(budget: Budget, part: Part, name: str, reason: str) -> Verdict:
    is_of_rank = part.argument != "host_gib"
    return _of_rank(budget, part.report, name, reason) if is_of_rank else Verdict(name, reason)


def _of_rank(budget: Budget, report: MemoryReport, name: str, reason: str) -> Verdict:
    if budget.gpus == 1:
        return Verdict(name, reason)
    return Verdict(name, f"rank {report.rank} of {budget.gpus}: {reason}", report.rank)


def _limit_text(budget: Budget, part: Part) -> str:
    if part.argument == "gib" and budget.gib is None:
        return f"{part.limit_bytes / GIB:.2f} GiB, what {budget.gpu} can hold"
    return f"{part.limit_bytes / GIB:g} GiB{' a machine' if part.argument == 'host_gib' else ''}"
