"""Chooses the ranks of a test to run, and combines their answers: all reports, or the first failure."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from ...budgets.budget import Budget
from ...budgets.verdict import OUT_OF_MEMORY, SKIPPED
from ...caveats import WORST_CASE, Caveat
from ...hardware.machines import GPUS_A_MACHINE
from ...results.answer import FAILED, TRACED, Answer, failed

#: Runs one rank, given what ranks that ran before have broadcast, and returns its answer.
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


class _Ranks:
    """The ranks whose figures are asked for, and those whose values they need."""

    def __init__(self, ask: Ask, ask_once: Ask, expect: Callable[[Mapping[int, str]], None]) -> None:
        self._ask, self._ask_once, self._expect = ask, ask_once, expect
        #: of ranks whose figures are asked for, and of one without a figure
        self.answers: dict[int, Answer] = {}
        #: the last answer of each rank that has run
        self.latest: dict[int, Answer] = {}
        #: what each rank got that has a figure, and what those get that were announced
        self._got: dict[int, str] = {}
        self._announced: dict[int, str] = {}

    @property
    def have_ended(self) -> bool:
        """Whether one has no figure, so that no other is needed."""
        return any(answer.outcome != TRACED for answer in self.answers.values())

    def run(self, ranks: Iterable[int]) -> None:
        """Run ``ranks`` in order, up to the first without a figure.

        Who got what another does not send any more runs again: once, as that may change what it sends too.
        """
        for rank in ranks:
            if not self.have_ended and rank not in self.answers:
                self._run(rank)
        for rank in [*self.answers]:
            if not self.have_ended and self._is_outdated(rank):
                self._run(rank)

    def announce(self, ranks: Iterable[int]) -> None:
        """``ranks`` run next: all get the same, so that they can be asked at once."""
        self._announced = {rank: self._received(rank) for rank in ranks}
        self._expect({**self._announced})

    def _received(self, rank: int) -> str:
        """What the others have sent ``rank`` so far; empty where no rank sends or asks for anything.

        So a rank that is asked before the first has answered is asked the same.
        """
        if not any(answer.has_exchanged for answer in self.latest.values()):
            return ""
        others = {str(one): answer.broadcasts for one, answer in self.latest.items() if one != rank}
        return json.dumps(others) if others else ""

    def _run(self, rank: int) -> None:
        """Run ``rank``; as long as it needs values of others, those, and then it again."""
        received = self._announced.pop(rank) if rank in self._announced else self._received(rank)
        answer = self._figure(rank, received)
        while unheard := {*answer.unheard} - _sent(self._got[rank]).keys():
            if not self._run_senders(sorted(unheard)):
                return
            answer = self._figure(rank, self._received(rank))

    def _figure(self, rank: int, received: str) -> Answer:
        self._got[rank] = received
        answer = self.answers[rank] = self.latest[rank] = self._ask(rank, received)
        return answer

    def _is_outdated(self, rank: int) -> bool:
        """Whether ``rank`` got values of which their sender has others now."""
        return any(self.latest[one].broadcasts != sent for one, sent in _sent(self._got[rank]).items())

    def _run_senders(self, ranks: Sequence[int]) -> bool:
        """Run ``ranks`` and whom they need, for what they send; then again those that lacked values.

        Whether none has failed: one that lacked values may have failed by that.
        """
        lacking: dict[int, None] = {}
        waiting = [rank for rank in ranks if rank not in self.latest]
        while waiting:
            answers = self._run_at_once(waiting)
            complete = {rank: one for rank, one in answers.items() if not one.unheard}
            failing = {rank: one for rank, one in complete.items() if one.outcome != TRACED}
            if failing:
                self.answers |= failing
                return False
            lacking = dict.fromkeys(rank for rank in (*lacking, *waiting) if rank not in complete)
            needed = dict.fromkeys(rank for one in answers.values() for rank in one.unheard)
            waiting = [rank for rank in needed if rank not in self.latest]
            waiting = waiting or [rank for rank in lacking if not self._is_confirmed(self.latest[rank])]
        return True

    def _is_confirmed(self, answer: Answer) -> bool:
        """Whether what it took for values of others is what they send: with them it would be the same."""
        assumed = json.loads(answer.assumed or "{}")
        return answer.outcome == TRACED and all(
            str(rank) in assumed and _are_sent(assumed[str(rank)], self.latest[rank].broadcasts)
            for rank in answer.unheard
        )

    def _run_at_once(self, ranks: Sequence[int]) -> Mapping[int, Answer]:
        """The answers of ``ranks``, which get what all have sent before, so that they can run at once."""
        received = {rank: self._received(rank) for rank in ranks}
        self._expect(received)
        answers = {rank: self._ask_once(rank, received[rank]) for rank in ranks}
        self.latest |= answers
        return answers


def _sent(received: str) -> Mapping[int, str]:
    """What a rank has ``received``, by the rank that has sent it."""
    return {int(rank): text for rank, text in json.loads(received or "{}").items()}


def _are_sent(assumed: Sequence[tuple[str, Sequence[Any]]], broadcasts: str) -> bool:
    """Whether a rank's ``broadcasts`` are what was ``assumed``, of which None may be anything."""
    waiting: dict[str, deque[Sequence[Any]]] = defaultdict(deque)
    for group, sent in json.loads(broadcasts or "[]"):
        waiting[group].append(sent)
    return all(
        all(
            mine is None or mine == its
            for mine, its in zip_longest(own, waiting[group].popleft() if waiting[group] else ())
        )
        for group, own in assumed
    )


def answer_of_ranks(
    budget: Budget, ask: Ask, ask_once: Ask, expect: Callable[[Mapping[int, str]], None]
) -> Answer:
    """The combined answer of all ranks of ``budget``. Stops at the first rank without a figure.

    Rank 0's run decides which others must run so that the worst is known; the remaining ranks are assumed to
    need no more, which each report says. ``ask_once`` is as ``ask``, for ranks
    that run for what they send alone. ``expect`` is called with the ranks that either will be called with
    next, and what they have received.
    """
    ranks = _Ranks(ask, ask_once, expect)
    ranks.run([0])
    answers = ranks.answers
    first = answers[0]
    further = sorted({*first.representatives} - answers.keys())
    if not ranks.have_ended:
        ranks.announce(further)
    ranks.run(further)
    caveats = first.rank_caveats if len(answers) < budget.gpus else ()
    if budget.host_gib is not None and len(set(map(_host_bytes, answers.values()))) > 1:
        if budget.gpus <= GPUS_A_MACHINE:
            ranks.run(rank for rank in range(budget.gpus) if rank not in answers)
            caveats = ()
        else:
            caveats = (*caveats, Caveat(WORST_CASE, _COUNTED))
    ends = [RankEnd(rank, _with(caveats, answer)) for rank, answer in answers.items()]
    whole = replace(combined(ends, budget.gpus), snapshot_rank=_snapshot_rank(answers))
    apart = _apart({**ranks.latest, **answers}) if whole.outcome == TRACED else None
    return whole if apart is None else replace(whole, outcome=FAILED, reason=apart[1], failed_rank=apart[0])


def _apart(answers: Mapping[int, Answer]) -> tuple[int, str] | None:
    """A rank that has left the others alone, and what to do; None where all are together."""
    met = [rank for rank, answer in answers.items() if answer.has_met]
    alone = [rank for rank, answer in answers.items() if not answer.has_met]
    if met and alone:
        return alone[0], (
            f"rank {alone[0]} ended without taking part in any process group, where rank {met[0]} would wait "
            "for it: let every rank make the group and call its collectives"
        )
    sizes = {rank: one.report.peak.allocated_bytes for rank, one in answers.items() if one.report is not None}
    empty = [rank for rank, size_bytes in sizes.items() if not size_bytes]
    if empty and any(sizes.values()):
        return empty[0], (
            f"rank {empty[0]} allocated nothing on cuda, and others did, so its budget checked nothing: let "
            "it do its share"
        )
    return None


def _with(caveats: Sequence[Caveat], answer: Answer) -> Answer:
    reports = (replace(report, caveats=(*report.caveats, *caveats)) for report in answer.reports)
    return replace(answer, reports=tuple(reports))


def _host_bytes(answer: Answer) -> int:
    host = answer.report.host if answer.report is not None else None
    return host.peak_bytes if host is not None else 0


def _snapshot_rank(answers: dict[int, Answer]) -> int | None:
    sizes = {rank: one.report.peak_bytes for rank, one in answers.items() if one.has_snapshot and one.report}
    return max(sizes, key=lambda rank: sizes[rank], default=None)
