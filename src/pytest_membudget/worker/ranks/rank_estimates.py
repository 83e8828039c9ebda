"""Estimates of a test that runs as several ranks: which ranks are asked, and their answers as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...budgets.budget import Budget
from ...caveats import WORST_CASE, Caveat
from ...hardware.machines import GPUS_A_MACHINE
from ...memory_report import with_caveats
from .rank_answers import RankEnd, combined

Answer = dict[str, Any]
#: The answer of one rank's run, which is given what rank 0 has said, if that ran before.
Ask = Callable[[int, str], Answer]


def answer_of_ranks(
    budget: Budget, ask: Ask, expect: Callable[[Iterable[int], str], None] = lambda ranks, heard: None
) -> Answer:
    """The answer of all ranks that ``budget`` is held to, each ``ask``ed once, until one gives no figure.

    Where the budget names no ranks, rank 0's run decides which others must be asked so that the worst is
    known; the remaining ranks are identical, which each report says. ``expect`` is called with ranks that
    will be asked after rank 0. The keys are those of ``measure_ranks``; ``snapshot_rank`` is the rank that
    takes most of those that have left a snapshot.
    """
    answers: dict[int, Answer] = {}
    named = budget.named_ranks
    if named is None or 0 in named:  # before the others, who hear what it says
        _ask_until_trouble(answers, [0], lambda rank: ask(rank, ""))
    first = answers.get(0, {})
    said = first.get("said", "")
    further = sorted({*(first.get("representatives", ()) if named is None else named)} - {0})
    if first:
        expect(further, said)
    if named is None:
        assumed = [Caveat.from_json(one) for one in first.get("rank_caveats", ())]
        caveats = _ask_the_rest(answers, further, budget, lambda rank: ask(rank, said), assumed)
    else:
        _ask_until_trouble(answers, further, lambda rank: ask(rank, said))
        caveats = []
    for answer in answers.values():
        if caveats and "report" in answer:
            answer["report"] = with_caveats(answer["report"], caveats)
    ends = [RankEnd(rank, answer) for rank, answer in answers.items()]
    return {**combined(ends, budget.gpus), "snapshot_rank": _snapshot_rank(answers)}


def _ask_the_rest(
    answers: dict[int, Answer],
    further: Iterable[int],
    budget: Budget,
    ask: Callable[[int], Answer],
    caveats: list[Caveat],
) -> list[Caveat]:
    """Ask the ``further`` ranks, and more where a machine's host memory needs them; what is assumed then."""
    _ask_until_trouble(answers, further, ask)
    if budget.host_gib is None or len({_host_bytes(answer) for answer in answers.values()}) < 2:
        return caveats
    if budget.gpus <= GPUS_A_MACHINE:
        _ask_until_trouble(answers, [rank for rank in range(budget.gpus) if rank not in answers], ask)
        return []
    counted = (
        "in the sum of a machine's host memory, ranks without an estimate count as the one that holds most"
    )
    return [*caveats, Caveat(WORST_CASE, counted)]


def _ask_until_trouble(
    answers: dict[int, Answer], ranks: Iterable[int], ask: Callable[[int], Answer]
) -> None:
    for rank in ranks:
        if any(answer["outcome"] != "traced" for answer in answers.values()):
            return
        answers[rank] = ask(rank)


def _host_bytes(answer: Answer) -> int:
    host = answer.get("report", {}).get("host")
    return _peak_bytes(host) if host is not None else 0


def _peak_bytes(report: dict[str, Any]) -> int:
    size_bytes: int = report["peak"][f"{report['metric']}_bytes"]
    return size_bytes


def _snapshot_rank(answers: dict[int, Answer]) -> int | None:
    left = {rank: answer for rank, answer in answers.items() if answer.get("has_snapshot")}
    return max(left, key=lambda rank: _peak_bytes(left[rank]["report"]), default=None)
