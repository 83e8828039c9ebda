"""Chooses the ranks of a test to run, and combines their answers: all reports, or the first failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ...budgets.budget import Budget
from ...budgets.verdict import OUT_OF_MEMORY, SKIPPED
from ...caveats import WORST_CASE, Caveat
from ...hardware.machines import GPUS_A_MACHINE
from ...results.answer import FAILED, TRACED, Answer, failed

#: Runs one rank, given what rank 0 has broadcast if that ran before, and returns its answer.
Ask = Callable[[int, str], Answer]
_COUNTED = "in the sum of a machine's host memory, ranks without an estimate count as the one that holds most"
#: Outcomes of a rank's answer after which the others are ended.
FAILURES = (FAILED, OUT_OF_MEMORY)


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
    """One answer for the ``ends`` of all ranks, the first to fail first, with the reports there are.

    ``world_size``: the number of ranks, if not all were run. The outcome is ``traced`` or ``skipped`` if it
    is every rank's; otherwise that of the first failure.
    """
    answers = [one.answer for one in sorted(ends, key=lambda one: one.rank) if one.answer is not None]
    return replace(
        _outcome(ends, world_size or len(ends)),
        reports=tuple(report for answer in answers for report in answer.reports),
        device=next((answer.device for answer in answers if answer.device), ""),
        properties=answers[0].properties if answers else (),
        # every rank runs the same lines
        warnings=tuple(dict.fromkeys(warning for answer in answers for warning in answer.warnings)),
        has_snapshot=any(answer.has_snapshot for answer in answers),
        snapshot_error=next((answer.snapshot_error for answer in answers if answer.snapshot_error), ""),
    )


def _outcome(ends: Sequence[RankEnd], world_size: int) -> Answer:
    failing = [one for one in ends if one.has_failed]
    failing = failing or [one for one in ends if one.answer is None or one.answer.outcome in FAILURES]
    if failing:
        return _failure(min(failing, key=lambda one: one.waits), ends, world_size)
    answers = {one.rank: one.answer for one in ends if one.answer is not None}
    outcomes = {answer.outcome for answer in answers.values()}
    if outcomes in ({SKIPPED}, {TRACED}):
        first = answers[min(answers)]
        return Answer(first.outcome, first.reason)
    skipped = ", ".join(str(rank) for rank in sorted(answers) if answers[rank].outcome == SKIPPED)
    return failed(f"of {world_size} ranks not all have skipped it, but these: {skipped}")


def _failure(first: RankEnd, ends: Sequence[RankEnd], world_size: int) -> Answer:
    """The failure of ``first`` with its last lines of output, and how the other ranks ended."""
    answer = first.answer or failed(first.reason)
    details = [answer.details]
    if first.output:
        details.append(f"The last lines of rank {first.rank}:\n{first.output}")
    others = sorted((one for one in ends if one is not first), key=lambda one: one.rank)
    details += [f"Rank {one.rank} {_fate(one)}" for one in others]
    return Answer(
        answer.outcome,
        f"rank {first.rank} of {world_size}: {answer.reason}",
        "\n".join(filter(None, details)),
        answer.where,
        raised=answer.raised,
        failed_rank=first.rank,
    )


def _fate(one: RankEnd) -> str:
    if one.answer is None:
        return f"failed too: {one.reason}" if one.has_failed else "was ended because of it."
    if one.answer.outcome in FAILURES:
        return f"failed too: {one.answer.reason.splitlines()[0]}"
    return "had skipped it." if one.answer.outcome == SKIPPED else "had finished."


def answer_of_ranks(budget: Budget, ask: Ask, expect: Callable[[Iterable[int], str], None]) -> Answer:
    """The combined answer of all ranks that ``budget`` applies to. Stops at the first rank without a figure.

    If the budget names no ranks, rank 0's run decides which others must run so that the worst is known; the
    remaining ranks are assumed to need no more, which each report says. ``expect`` is called with the ranks
    that ``ask`` will be called with after rank 0.
    """
    answers: dict[int, Answer] = {}
    named = budget.named_ranks

    def run(ranks: Iterable[int]) -> None:
        for rank in ranks:
            if any(answer.outcome != TRACED for answer in answers.values()):
                return
            answers[rank] = ask(rank, answers[0].broadcasts if 0 in answers else "")

    if named is None or 0 in named:  # first: the others need what it broadcasts
        run([0])
    first = answers.get(0)
    representatives = first.representatives if first is not None else ()
    further = sorted({*(representatives if named is None else named)} - {0})
    if first is not None:
        expect(further, first.broadcasts)
    run(further)
    caveats = first.rank_caveats if first is not None and named is None else ()
    if named is None and budget.host_gib is not None and len(set(map(_host_bytes, answers.values()))) > 1:
        if budget.gpus <= GPUS_A_MACHINE:
            run(rank for rank in range(budget.gpus) if rank not in answers)
            caveats = ()
        else:
            caveats = (*caveats, Caveat(WORST_CASE, _COUNTED))
    ends = [RankEnd(rank, _with(caveats, answer)) for rank, answer in answers.items()]
    return replace(combined(ends, budget.gpus), snapshot_rank=_snapshot_rank(answers))


def _with(caveats: Sequence[Caveat], answer: Answer) -> Answer:
    reports = (replace(report, caveats=(*report.caveats, *caveats)) for report in answer.reports)
    return replace(answer, reports=tuple(reports))


def _host_bytes(answer: Answer) -> int:
    host = answer.report.host if answer.report is not None else None
    return host.peak_bytes if host is not None else 0


def _snapshot_rank(answers: dict[int, Answer]) -> int | None:
    sizes = {rank: one.report.peak_bytes for rank, one in answers.items() if one.has_snapshot and one.report}
    return max(sizes, key=lambda rank: sizes[rank], default=None)
