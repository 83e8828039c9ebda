"""Chooses the ranks of a test to run, and combines their answers: all reports, or the first failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...budgets.budget import Budget
from ...caveats import WORST_CASE, Caveat
from ...hardware.machines import GPUS_A_MACHINE
from ...memory_report import MemoryReport
from ..protocol import Answer

#: Runs one rank, given what rank 0 has broadcast if that ran before, and returns its answer.
Ask = Callable[[int, str], Answer]
_COUNTED = "in the sum of a machine's host memory, ranks without an estimate count as the one that holds most"
#: Outcomes of a rank's answer after which the others are ended.
FAILURES = ("error", "out_of_memory")


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank has ended."""

    rank: int
    answer: Answer | None
    """Its answer, as a worker's; None if it has none."""
    has_failed: bool = False
    """Whether it raised, died or hung; without an answer it was else ended because another rank failed."""
    waits: bool = False
    """Whether it was in a collective: then another rank is the more likely cause."""
    reason: str = ""
    """Why it has no answer."""
    output: str = ""
    """The end of its output."""


def combined(ends: Sequence[RankEnd], world_size: int | None = None) -> Answer:
    """One answer for the ``ends`` of all ranks, the first to fail first, in the form of a worker's answer.

    ``world_size``: the number of ranks, if not all were run. ``reports`` has the reports there are. The
    outcome is ``traced`` or ``skipped`` if it is every rank's; otherwise that of the first failure, whose
    rank is ``failed_rank``.
    """
    by_rank = sorted(ends, key=lambda one: one.rank)
    answers = [one.answer for one in by_rank if one.answer is not None]
    found = {
        "reports": [answer["report"] for answer in answers if answer.get("report")],
        "device": next((answer["device"] for answer in answers if "device" in answer), ""),
        "properties": answers[0].get("properties", []) if answers else [],
        "warnings": _without_repeats(warning for answer in answers for warning in answer.get("warnings", ())),
        "has_snapshot": any(answer.get("has_snapshot", False) for answer in answers),
        "snapshot_error": next(filter(None, (answer.get("snapshot_error") for answer in answers)), ""),
    }
    return {**found, **_outcome(ends, world_size or len(ends))}


def _without_repeats(warnings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every rank runs the same lines."""
    return list({tuple(warning.values()): warning for warning in warnings}.values())


def _outcome(ends: Sequence[RankEnd], world_size: int) -> Answer:
    failed = [one for one in ends if one.has_failed]
    failed = failed or [one for one in ends if one.answer is None or one.answer["outcome"] in FAILURES]
    if failed:
        return _failure(min(failed, key=lambda one: one.waits), ends, world_size)
    answers = {one.rank: one.answer for one in ends if one.answer is not None}
    outcomes = {answer["outcome"] for answer in answers.values()}
    if outcomes == {"skipped"}:
        return {"outcome": "skipped", "reason": answers[min(answers)]["reason"]}
    if outcomes == {"traced"}:
        return {"outcome": "traced"}
    skipped = ", ".join(str(rank) for rank in sorted(answers) if answers[rank]["outcome"] == "skipped")
    reason = f"of {world_size} ranks not all have skipped it, but these: {skipped}"
    return {"outcome": "error", "reason": reason}


def _failure(first: RankEnd, ends: Sequence[RankEnd], world_size: int) -> Answer:
    """The failure of ``first`` with its last lines of output, and how the other ranks ended."""
    answer = first.answer or {"outcome": "error", "reason": first.reason}
    details = [answer.get("details", "")]
    if first.output:
        details.append(f"The last lines of rank {first.rank}:\n{first.output}")
    others = sorted((one for one in ends if one is not first), key=lambda one: one.rank)
    details += [f"Rank {one.rank} {_fate(one)}" for one in others]
    return {
        **{name: answer[name] for name in ("outcome", "where", "raised") if name in answer},
        "reason": f"rank {first.rank} of {world_size}: {answer['reason']}",
        "details": "\n".join(filter(None, details)),
        "failed_rank": first.rank,
    }


def _fate(one: RankEnd) -> str:
    if one.answer is None:
        return f"failed too: {one.reason}" if one.has_failed else "was ended because of it."
    if one.answer["outcome"] in FAILURES:
        return f"failed too: {one.answer['reason'].splitlines()[0]}"
    return "had skipped it." if one.answer["outcome"] == "skipped" else "had finished."


def answer_of_ranks(budget: Budget, ask: Ask, expect: Callable[[Iterable[int], str], None]) -> Answer:
    """The combined answer of all ranks that ``budget`` applies to. Stops at the first rank without a figure.

    If the budget names no ranks, rank 0's run decides which others must run so that the worst is known; the
    remaining ranks are assumed to need no more, which each report says. ``expect`` is called with the ranks
    that ``ask`` will be called with after rank 0. The keys are those of ``measure_ranks``; ``snapshot_rank``
    is the rank that takes most of those with a snapshot.
    """
    answers: dict[int, Answer] = {}
    named = budget.named_ranks

    def run(ranks: Iterable[int]) -> None:
        for rank in ranks:
            if any(answer["outcome"] != "traced" for answer in answers.values()):
                return
            answers[rank] = ask(rank, answers.get(0, {}).get("broadcasts", ""))

    if named is None or 0 in named:  # first: the others need what it broadcasts
        run([0])
    first = answers.get(0, {})
    further = sorted({*(first.get("representatives", ()) if named is None else named)} - {0})
    if first:
        expect(further, first.get("broadcasts", ""))
    run(further)
    caveats = [Caveat.from_json(one) for one in first.get("rank_caveats", ())] if named is None else []
    if named is None and budget.host_gib is not None and len(set(map(_host_bytes, answers.values()))) > 1:
        if budget.gpus <= GPUS_A_MACHINE:
            run(rank for rank in range(budget.gpus) if rank not in answers)
            caveats = []
        else:
            caveats.append(Caveat(WORST_CASE, _COUNTED))
    if caveats:
        for answer in answers.values():
            _add(caveats, answer)
    found = combined([RankEnd(rank, answer) for rank, answer in answers.items()], budget.gpus)
    return {**found, "snapshot_rank": _snapshot_rank(answers)}


def _add(caveats: Sequence[Caveat], answer: Answer) -> None:
    if "report" in answer:
        report = MemoryReport.from_json(answer["report"])
        answer["report"] = replace(report, caveats=(*report.caveats, *caveats)).to_json()


def _host_bytes(answer: Answer) -> int:
    host = answer.get("report", {}).get("host")
    return _peak_bytes(host) if host is not None else 0


def _peak_bytes(report: dict[str, Any]) -> int:
    size_bytes: int = report["peak"][f"{report['metric']}_bytes"]
    return size_bytes


def _snapshot_rank(answers: dict[int, Answer]) -> int | None:
    left = {rank: answer for rank, answer in answers.items() if answer.get("has_snapshot")}
    return max(left, key=lambda rank: _peak_bytes(left[rank]["report"]), default=None)
