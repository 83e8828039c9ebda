"""Estimates a test that runs as several ranks: chooses the ranks to run, and combines their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...budgets.budget import Budget
from ...caveats import WORST_CASE, Caveat
from ...hardware.machines import GPUS_A_MACHINE
from ...memory_report import MemoryReport
from .rank_answers import RankEnd, combined

Answer = dict[str, Any]
#: Runs one rank, given what rank 0 has broadcast if that ran before, and returns its answer.
Ask = Callable[[int, str], Answer]
_COUNTED = "in the sum of a machine's host memory, ranks without an estimate count as the one that holds most"


def answer_of_ranks(
    budget: Budget,
    ask: Ask,
    expect: Callable[[Iterable[int], str], None] = lambda ranks, rank0_broadcasts: None,
) -> Answer:
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
