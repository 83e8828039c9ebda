"""The runs of one test with different answers to what nobody knows: what takes most, and why they differ."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from ...budgets.verdict import OUT_OF_MEMORY
from ...caveats import (
    COLLECTED,
    COMPONENT_DEPENDS,
    DEPENDS,
    DRAWN,
    FREE_MEMORY,
    HELD_DEPENDS,
    HOST_DEPENDS,
    METRIC_DEPENDS,
    MISSING,
    OTHERWISE,
    READ,
    SIZE_READ,
    WORST_CASE,
    Cause,
    Caveat,
)
from ...components import METRICS
from ...memory_report import MemoryReport
from ...results import varied
from ...results.answer import FAILED, Answer
from ...units import gib_text

#: How the names of parts of it begin.
_OF_HOST = "host memory"
_HELD = "what is held when the body ends is"
_COMPONENT = "the part of"
#: Of parts that count only where the budget limits them: what says so, by how their names begin.
_LIMITED = {_OF_HOST: HOST_DEPENDS, _HELD: HELD_DEPENDS, _COMPONENT: COMPONENT_DEPENDS}
#: What variants answer otherwise: any answer may be wrong; the largest size may be too large alone.
_READS = (READ, SIZE_READ, DRAWN, FREE_MEMORY)
_VARIED = (*_READS, WORST_CASE)


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs of one test."""

    first: Answer
    others: Sequence[Answer]
    redrawn: Answer | None = None
    """The run with plausible answers and other draws, or the upper ones; None where it is not needed."""
    odd: Sequence[Answer] = ()
    """The runs with odd numbers and with falling ones, which count only where they take more."""
    late: Answer | None = None
    """The run with a late watchdog; None where it lets go of nothing."""
    left: Answer | None = None
    """The run in which no row chooses but the first options; None where nothing follows from a choice."""
    reseeded: Answer | None = None
    """The run with other draws of the host alone; None where it is not needed."""
    paired: Sequence[Answer] = ()
    """Where sizes may be by truths: runs with those of the first, and the second, and other numbers."""

    @property
    def runs(self) -> list[Answer]:
        """In the order in which they ran."""
        further = (self.redrawn, *self.odd, self.late, self.left, self.reseeded, *self.paired)
        return [self.first, *self.others, *(one for one in further if one is not None)]

    @property
    def most(self) -> Answer:
        """The one whose report is the test's."""
        return most_of(self.runs)

    def caveats(self) -> Iterator[Caveat]:
        """Those of ``most``; of what was varied only what the figure depends on, and by how much."""
        for one in self.first.own_report.caveats:
            if one.cause in _VARIED and self._lost is not None:
                reason = first_line(self._lost)
                yield Caveat(DEPENDS, f"{one.text}{OTHERWISE}the test has no figure: {reason}")
            elif one.cause in _READS:
                yield from self._of_read(one)
            elif one.cause is WORST_CASE:
                yield from self._of_size(one)
        yield from self._of_draws()
        yield from self._of_checks()
        if self.late is not None and not self.late.has_figure:
            yield from self._depending(varied.WATCHDOG)
        reports = [one.report for one in self.runs if one.has_figure and one.report is not None]
        others = [one for report in reports for one in not_counted(report)]
        kept = [one for one in self.most.own_report.caveats if one.cause not in _VARIED]
        if self.most is self.left and self._is_worst:
            kept = [*(one for one in self.most.own_report.caveats if one.cause is WORST_CASE), *kept]
        collected = [one for one in self.first.own_report.caveats if one.text.startswith(varied.GARBAGE)]
        yield from dict.fromkeys([*kept, *collected, *others])

    @property
    def _lost(self) -> Answer | None:
        """A further run without a figure that nothing in the test has ended."""
        return next((one for one in self.runs[1:] if one.outcome == FAILED and not one.raised), None)

    @property
    def _is_worst(self) -> bool:
        """Whether no other answer takes more than the first's, but for what is said to be the worst case."""
        return most_of(self._without(self.late, self.left)) is self.first

    def without_first(self) -> Iterator[Caveat]:
        """Those of ``most`` where the first has raised, and so is not compared: all, if other runs agree."""
        reason = f"{OTHERWISE}the test has no figure: {first_line(self.first)}"
        agree = self._others_agree
        # what is true nowhere there, or in one element, is no worst case
        has_least = any(self.most is one for one in (*self.others[1:2], *self.odd))
        for one in self.most.own_report.caveats:
            rests = one.cause in (_VARIED if has_least else _READS) and not agree
            yield Caveat(DEPENDS, f"{one.text}{reason}") if rests else one
        for what in {*self.first.unknown} - {*varied.OF_READS, *varied.APART} if not agree else ():
            yield Caveat(DEPENDS, f"{what}{reason}")

    @property
    def _others_agree(self) -> bool:
        """Whether a run but ``most`` took as much, until it raised too; none more, and no figure less."""
        peak, most = self.most.peak_bytes, self.most
        comparable = self.others[: self._comparable]
        less = [one for one in comparable if one.has_figure and one.peak_bytes < peak]
        return not less and max(one.peak_bytes for one in self._without(most)) == peak

    def _of_read(self, one: Caveat) -> Iterator[Caveat]:
        others_differ = self._depends_on_reads()
        if self._odd_takes_more() or self._upper_differs() or others_differ:
            yield from self._depending(one.text, FREE_MEMORY if one.cause is FREE_MEMORY else DEPENDS)
        elif others_differ is None:
            yield one
        elif one.cause is not FREE_MEMORY and self._have_own_sizes():
            yield replace(one, cause=SIZE_READ)

    def _of_size(self, one: Caveat) -> Iterator[Caveat]:
        differ = [self.differs(other) for other in self.others if other.has_figure]
        if differ and not any(differ) and not self._odd_takes_more():
            return
        if not self._is_worst:
            yield from self._depending(one.text)
        elif self.most is not self.left:
            yield one

    def _of_draws(self) -> Iterator[Caveat]:
        """What the host has drawn, or got."""
        redrawn_differs = self.redrawn is not None and self.differs(self.redrawn)
        if not (self._depends_on_reads() or self._lost is not None or redrawn_differs):
            return
        known = {*varied.OF_READS, *varied.APART}
        if self.reseeded is not None and not self.peaks_differ(self.reseeded):
            known.update(self._draws())
        for what in self.first.unknown:
            if what not in known:
                yield from self._depending(what)

    def _of_checks(self) -> Iterator[Caveat]:
        """What is finite in the first run, where one in which it is not takes most."""
        if varied.FINITE in self.first.unknown and any(self.most is one for one in self.odd):
            named = [one.text.partition(" (")[0] for one in self.first.own_report.caveats]
            for one in self.most.own_report.caveats:
                if one.cause in _VARIED and one.text.partition(" (")[0] not in named:
                    yield from self._depending(one.text)

    def may_be_by_draws(self) -> bool:
        """Whether peaks differ by draws of the host, or by something else."""
        draws = self._draws()
        differ = any(one.has_figure and self.peaks_differ(one) for one in self.others)
        others = {*self.first.unknown} - varied.APART - draws - {varied.HOST_ENDS}
        return differ and bool(draws) and bool(others)

    def _draws(self) -> set[str]:
        return {what for what in self.first.unknown if what.startswith(varied.DRAWS)}

    def differs(self, one: Answer) -> bool:
        """Whether ``one`` has another figure than the first."""
        return not one.has_figure or (one.outcome, parts_of(one)) != (
            self.first.outcome,
            parts_of(self.first),
        )

    def peaks_differ(self, one: Answer) -> bool:
        """Whether ``one`` has another peak than the first; what it holds at its end may be garbage."""
        return not one.has_figure or one.report is None or one.report.peak != self.first.own_report.peak

    def _without(self, *left_out: Answer | None) -> list[Answer]:
        """The runs but those; equal ones are others."""
        return [one for one in self.runs if not any(one is other for other in left_out)]

    def _odd_takes_more(self) -> bool:
        others = self._without(*self.odd, self.late, self.left)
        most, most_host = (max(map(attrgetter(name), others)) for name in ("peak_bytes", "host_bytes"))
        return any(one.peak_bytes > most or one.host_bytes > most_host for one in self.odd)

    def _upper_differs(self) -> bool:
        """Whether draws of the card have another figure at their upper end."""
        has_drawn = varied.CARD_DRAWS in self.first.unknown
        return has_drawn and self.redrawn is not None and self.differs(self.redrawn)

    def may_be_by_truths(self) -> bool:
        """Whether sizes that differ where no figure does may follow from truths, not from numbers."""
        if self._comparable == 1 or not all(one.has_figure for one in (self.first, *self.others)):
            return False
        return self._depends_on_reads() is False and self._have_own_sizes()

    def _depends_on_reads(self) -> bool | None:
        """Whether the figure depends on what was read; None where no other run came to its end."""
        others = [*self.others, *self.paired]
        if any(one.peak_bytes > self.first.peak_bytes for one in others if not one.has_figure):
            return True
        differ = [self.differs(one) for one in self.others if one.has_figure]
        paired = [self.differs(one) for one in self.paired if one.has_figure]
        return any([*differ[: self._comparable], *paired]) if differ else None

    @property
    def _comparable(self) -> int:
        """How many of the others say something of numbers: the second may differ by its sizes alone."""
        return 2 if varied.BOUNDS not in self.first.unknown else 1

    @property
    def _counted(self) -> list[Answer]:
        """The runs but a late watchdog's, and those that count only where they take more and do not."""
        first = self.first
        only_more = [*self.others[self._comparable :], *self.odd, self.left]
        less = [
            one
            for one in only_more
            if one is not None and one.peak_bytes <= first.peak_bytes and one.host_bytes <= first.host_bytes
        ]
        late = self.late if self.late is not None and self.late.has_figure else None
        return self._without(late, *less)

    def _have_own_sizes(self) -> bool:
        """Whether sizes are made of numbers, of which nobody knows how large they are.

        One run has a size that no other has, or of one size two have counts that no other has: what a loop
        holds that ends sooner in one of them is in the others too, as is what a truth alone leads to.
        """
        runs = [self.first, *self.others[: self._comparable]]
        has_own_size = any(self._own(runs, lambda one: {size for size, _ in one.sizes}))
        own_counts = Counter(size for own in self._own(runs, lambda one: {*one.sizes}) for size, _ in own)
        return has_own_size or any(count > 1 for count in own_counts.values())

    def _own(self, runs: Sequence[Answer], parts: Callable[[Answer], set[Any]]) -> list[set[Any]]:
        """What of ``parts`` each of ``runs`` has that neither another nor its pair has."""
        found = [parts(one) for one in runs]
        pairs = [*map(parts, self.paired), *[set[Any]()] * len(runs)]
        return [
            own.difference(*(other for other in found if other is not own), pair)
            for own, pair in zip(found, pairs, strict=False)
        ]

    def of_garbage(self) -> Iterator[Caveat]:
        """That the figure depends on when Python collects garbage, which the other run does not."""
        yield from self._depending(varied.GARBAGE, DEPENDS if self.most is self.first else COLLECTED, "; ")

    def _depending(self, text: str, own: Cause = DEPENDS, when: str = OTHERWISE) -> Iterator[Caveat]:
        """That the figure depends on ``text``; where it does not, which parts do: a budget may limit each."""
        most, metric = self.first.peak_bytes, self.first.own_report.metric
        # one that has raised is smaller as it ended sooner
        sizes = [one.peak_bytes for one in self._counted if one.has_figure or one.peak_bytes > most]
        figure = f"{text}{when}the figure is {range_text(sizes)}"
        found: dict[Cause, str] = {}
        limited = _LIMITED | {one: METRIC_DEPENDS for one in METRICS if one != metric}
        for name, taken in self._differing().items() if len({*sizes}) == 1 else ():
            cause = next((cause for begin, cause in limited.items() if name.startswith(begin)), own)
            found.setdefault(cause, f"{figure} too, but {name} {range_text(taken)}")
        if own in found or not found:
            found = {own: found.get(own, figure + " too" * (len({*sizes}) == 1))}
        yield from (Caveat(cause, text) for cause, text in found.items())

    def _differing(self) -> dict[str, list[int]]:
        """The parts in which the runs differ, and what each takes."""
        parts = [parts_of(one) for one in self._counted if one.has_figure]
        sizes = {name: [one.get(name, 0) for one in parts] for one in parts for name in one}
        return {name: taken for name, taken in sizes.items() if len({*taken}) > 1}


def most_of(runs: Sequence[Answer]) -> Answer:
    """The one that takes most of those with a figure; the first if none has one."""
    with_figures = [one for one in runs if one.has_figure and one.report is not None]
    return max(with_figures, key=lambda one: (one.outcome == OUT_OF_MEMORY, one.peak_bytes), default=runs[0])


def parts_of(answer: Answer) -> dict[str, int]:
    """All that a budget may be held to, by what it is called in a caveat."""
    report = answer.own_report
    host = report.host
    return {
        **{f"{metric} memory is": size for metric, size in report.peak.items()},
        _HELD: report.held_bytes or 0,
        f"{_OF_HOST} is": answer.host_bytes,
        **{f"{_COMPONENT} {name} is": size for name, size in report.components.items()},
        **({f"{_OF_HOST} of {name} is": size for name, size in host.components.items()} if host else {}),
    }


def first_line(lost: Answer) -> str:
    """Why a run has no figure."""
    return lost.reason.partition("\n")[0]


def range_text(sizes: Sequence[int]) -> str:
    """The least and the most of ``sizes``, or what all of them are."""
    least, most = gib_text(min(sizes)), gib_text(max(sizes))
    apart = max(sizes) - min(sizes)
    if least == most:
        return f"{least}, and up to {apart:,} bytes more" if apart else least
    are_of_one_unit = least.split()[1] == most.split()[1]
    if are_of_one_unit or apart > min(sizes):
        return f"{least} to {most}"
    return f"{least}, and up to {gib_text(apart)} more"


def not_counted(report: MemoryReport) -> tuple[Caveat, ...]:
    """The caveats of ``report`` that name memory missing in it."""
    return tuple(one for one in report.caveats if one.kind == MISSING)
