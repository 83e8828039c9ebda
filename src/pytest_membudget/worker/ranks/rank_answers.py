"""Chooses the ranks of a test to run, and combines their answers: all reports, or the first failure."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...budgets.budget import Budget
from ...budgets.verdict import OUT_OF_MEMORY, SKIPPED
from ...caveats import DEPENDS, HOW, OTHER_OBJECTS, OTHER_RANKS, WORST_CASE, Caveat
from ...hardware.machines import GPUS_A_MACHINE
from ...results.answer import FAILED, GATHERED, TRACED, Answer, failed
from ...units import gib_text
from .exchanges import Exchanges, Run

#: Runs one rank, given what ranks that ran before have broadcast, and returns its answer.
AskOnce = Callable[[int, str], Answer]
#: The same, and varies what nobody knows; of a run that was as with these values its answer is given.
Ask = Callable[[int, str, Answer | None], Answer]


@dataclass(frozen=True, slots=True)
class Asking:
    """How ranks are asked."""

    ask: Ask
    ask_once: AskOnce
    """For those that run for what they send alone."""
    expect: Callable[[Mapping[int, str]], None] = lambda received: None
    """Called with the ranks that are asked next, and what they have received."""
    expect_further: Callable[[Mapping[int, tuple[str, Answer]]], None] = lambda known: None
    """Called with what ranks get whose answers are known, of which what nobody knows is varied next."""
    at_once: int = 1
    """How many run at the same time."""
    ahead: tuple[int, ...] = ()
    """Those that have been asked already, when nothing was received."""


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
    printed = f"The last lines of rank {first.rank}:\n{first.output}" if first.output else ""
    others = sorted((one for one in ends if one is not first), key=lambda one: one.rank)
    details = [answer.details, printed, *(f"Rank {one.rank} {_fate(one)}" for one in others)]
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

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        #: what ranks get that already run
        self._ahead = dict.fromkeys(asking.ahead, "")
        #: of ranks whose figures are asked for, and of one without a figure
        self.answers: dict[int, Answer] = {}
        #: the last run of each rank that has run
        self.latest: dict[int, Run] = {}
        #: what each rank gets that was announced
        self._announced: dict[int, str] = {}
        #: how many right values each rank has taken at most
        self._most_right: dict[int, int] = {}
        #: ranks that took no more when they ran again: others give something else in each run
        self._stuck: set[int] = set()

    @property
    def have_ended(self) -> bool:
        """Whether one has no figure, so that no other is needed."""
        return any(answer.outcome != TRACED for answer in self.answers.values())

    def run(self, ranks: Iterable[int]) -> None:
        """Run ``ranks`` in order, up to the first without a figure.

        Who got what another does not send any more runs again, as long as it then takes more right values.
        """
        for rank in ranks:
            if not self.have_ended and rank not in self.answers:
                self._run(rank)
        for rank in [*self.answers]:
            if not self.have_ended and self._is_outdated(rank):
                self._run(rank)

    def announce(self, ranks: Iterable[int]) -> None:
        """``ranks`` run next, all at once: who has not run as with the values of all gets the same."""
        if all(self._settle(rank) for rank in ranks if rank in self.latest):
            final = {rank: answer for rank in ranks if (answer := self._final(rank)) is not None}
            self._announced = {rank: self._received(rank) for rank in ranks if rank not in final}
            known = {rank: (self._received(rank), answer) for rank, answer in final.items()}
            self._asking.expect_further(known)
            self._asking.expect({**self._announced})

    def try_others(self) -> None:
        """Who took what others send no more runs with what they send now: its figure may depend on it."""
        for rank, answer in self.answers.items():
            if not self.have_ended and self._is_outdated(rank):
                self.answers[rank] = _together(answer, self._asking.ask(rank, self._received(rank), None))

    def _received(self, rank: int) -> str:
        """What the others have sent ``rank`` so far; empty where no rank sends or asks for anything.

        So a rank that is asked before the first has answered is asked the same.
        """
        if not any(run.answer.has_exchanged for run in self.latest.values()):
            return ""
        others = {str(one): run.answer.broadcasts for one, run in self.latest.items() if one != rank}
        return json.dumps(others) if others else ""

    def _run(self, rank: int) -> None:
        """Run ``rank``; as long as it took wrong values for those of others, these, and then it again."""
        if rank in self.latest and not self._settle(rank):
            return
        while True:
            self._figure(rank)
            if not self._settle(rank):
                return
            has_grown = self._has_grown(rank)
            if not self.answers[rank].unheard and not (has_grown and self._is_outdated(rank)):
                return

    def _figure(self, rank: int) -> None:
        """Run ``rank`` for its figure: as it ran for what it sends, if it took the right values then."""
        announced, received = self._announced.pop(rank, None), self._received(rank)
        if announced is not None and rank not in self.latest:
            received = announced
        answer = self.answers[rank] = self._asking.ask(rank, received, self._final(rank))
        self.latest[rank] = Run(answer, received)

    def _final(self, rank: int) -> Answer | None:
        """The answer of ``rank``, if it has run as it would with the values of all."""
        is_final = rank in self.latest and Exchanges(self.latest).is_right(rank)
        return replace(self.latest[rank].answer, unheard=()) if is_final else None

    def _is_outdated(self, rank: int) -> bool:
        """Whether ``rank`` took other values than there are for it now."""
        return self._final(rank) is None and self._received(rank) != self.latest[rank].received

    def _settle(self, goal: int) -> bool:
        """Run whom ``goal`` needs, for what they send, until all that it took of them is certain.

        Whether none has failed: one that took wrong values may have failed by that. The last rank runs before
        others, which then take its values for those of ranks near it; and no more at once than there are
        processes, so that the next get what these send.
        """
        exchanges = Exchanges(self.latest)
        while waiting := [one for one in exchanges.to_run(goal) if one not in self._stuck]:
            waiting = waiting[-1:] if len(self.latest) == 1 else waiting[: self._asking.at_once]
            self._run_at_once(waiting)
            exchanges = Exchanges(self.latest)
            self._stuck |= {one for one in waiting if not self._has_grown(one)}
            ended = [one for one in waiting if exchanges.is_right(one) or one in self._stuck]
            answers = {one: self.latest[one].answer for one in ended}
            if failing := {one: answer for one, answer in answers.items() if answer.outcome != TRACED}:
                self.answers |= failing
                return False
        return True

    def _has_grown(self, rank: int) -> bool:
        """Whether ``rank`` has taken more right values than ever before."""
        before, right = self._most_right.get(rank, -1), Exchanges(self.latest).right[rank]
        self._most_right[rank] = max(before, right)
        return right > before

    def _run_at_once(self, ranks: Sequence[int]) -> None:
        """Run ``ranks``, which get what all have sent before, so that they can run at once."""
        received = {rank: self._ahead.pop(rank, self._received(rank)) for rank in ranks}
        self._asking.expect(received)
        for rank in ranks:
            self.latest[rank] = Run(self._asking.ask_once(rank, received[rank]), received[rank])


def answer_of_ranks(budget: Budget, asking: Asking) -> Answer:
    """The combined answer of all ranks of ``budget``. Stops at the first rank without a figure.

    Rank 0's run decides which others must run so that the worst is known; the remaining ranks are assumed to
    need no more, which each report says.
    """
    ranks = _Ranks(asking)
    ranks.run([0])
    answers = ranks.answers
    first = answers[0]
    further = sorted({*first.other_ranks.representatives} - answers.keys())
    if not ranks.have_ended:
        ranks.announce(further)
    ranks.run(further)
    ranks.try_others()
    caveats = _of_others(answers) if len(answers) < budget.gpus else ()
    held = {sum(report.host_bytes for report in answer.reports) for answer in answers.values()}
    if budget.host_gib is not None and len(held) > 1:
        if budget.gpus <= GPUS_A_MACHINE:
            ranks.run(rank for rank in range(budget.gpus) if rank not in answers)
            caveats = ()
        else:
            caveats = (*caveats, Caveat(WORST_CASE, _COUNTED))
    if _gather_the_same(answers.values()):
        answers = {rank: _without_guesses(answer) for rank, answer in answers.items()}
    ends = [RankEnd(rank, _with(caveats, answer)) for rank, answer in answers.items()]
    whole = replace(combined(ends, budget.gpus), snapshot_rank=_snapshot_rank(answers))
    apart = _apart({one: run.answer for one, run in ranks.latest.items()} | answers)
    if apart is None or whole.outcome != TRACED:
        return whole
    return replace(whole, outcome=FAILED, reason=apart[1], failed_rank=apart[0])


def _of_others(answers: Mapping[int, Answer]) -> tuple[Caveat, ...]:
    """What is assumed of ranks without an answer: unchecked where a tried one takes what no other does."""
    others = answers[0].other_ranks
    counts = Counter(answer.peak_bytes for answer in answers.values())
    odd = [rank for rank in others.tried if rank in answers and counts[answers[rank].peak_bytes] == 1]
    if not odd:
        return others.caveats
    takes = f"but rank {odd[0]} takes {gib_text(answers[odd[0]].peak_bytes)}, which none of the others does"
    return tuple(Caveat(OTHER_RANKS, f"{one.text}, {takes}") for one in others.caveats)


def _gather_the_same(answers: Collection[Answer]) -> bool:
    """Whether ``answers``, of several ranks, have each given the same objects to the others."""
    sent = [json.loads(answer.broadcasts or "[]") for answer in answers]
    gathered = [[values for group, values in one if group.endswith(GATHERED)] for one in sent]
    # what cannot be handed on is not sent
    return len(gathered) > 1 and all(one and one == gathered[0] and [None] not in one for one in gathered)


def _without_guesses(answer: Answer) -> Answer:
    """That ranks which were not run gather the same too is how its figure was made."""
    report = answer.report
    if report is None:
        return answer
    caveats = (replace(one, cause=HOW) if one.cause is OTHER_OBJECTS else one for one in report.caveats)
    return replace(answer, reports=(replace(report, caveats=tuple(caveats)),))


def _apart(answers: Mapping[int, Answer]) -> tuple[int, str] | None:
    """A rank that has left the others alone, and what to do; None where all are together."""
    met = [rank for rank, answer in answers.items() if answer.has_met]
    alone = [rank for rank, answer in answers.items() if not answer.has_met]
    if met and alone:
        return alone[0], (
            f"rank {alone[0]} ended without taking part in any process group, where rank {met[0]} would wait "
            "for it: let every rank make the group and call its collectives"
        )
    sizes = {rank: one.report.peak["allocated"] for rank, one in answers.items() if one.report is not None}
    empty = [rank for rank, size_bytes in sizes.items() if not size_bytes]
    if empty and any(sizes.values()):
        return empty[0], (
            f"rank {empty[0]} allocated nothing on cuda, and others did, so its budget checked nothing: let "
            "it do its share"
        )
    return None


def _together(answer: Answer, other: Answer) -> Answer:
    """Of two runs of a rank with other values of others the one that takes more, and by how much."""
    sizes = [one.report.peak_bytes for one in (answer, other) if one.report is not None]
    if other.outcome != TRACED:
        what = "it has no figure: " + other.reason.partition("\n")[0]
    elif min(sizes) != max(sizes):
        what = f"the figure is {gib_text(min(sizes))} to {gib_text(max(sizes))}"
    else:
        return answer
    caveat = Caveat(
        DEPENDS, f"what other ranks send is different in each run; with that of another run {what}"
    )
    return _with([caveat], other if other.outcome == TRACED and sizes[1] > sizes[0] else answer)


def _with(caveats: Sequence[Caveat], answer: Answer) -> Answer:
    reports = (replace(report, caveats=(*report.caveats, *caveats)) for report in answer.reports)
    return replace(answer, reports=tuple(reports))


def _snapshot_rank(answers: dict[int, Answer]) -> int | None:
    sizes = {rank: one.report.peak_bytes for rank, one in answers.items() if one.has_snapshot and one.report}
    return max(sizes, key=lambda rank: sizes[rank], default=None)
