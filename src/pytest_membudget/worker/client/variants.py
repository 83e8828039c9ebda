"""Runs a test again where its figure may depend on what nobody knows, and says whether it does."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ...budgets.verdict import OUT_OF_MEMORY
from ...caveats import COLLECTED, DEPENDS, DRAWN, HOST_DEPENDS, READ, SIZE_READ, WORST_CASE, Caveat
from ...memory_report import MemoryReport
from ...results.answer import (
    BOUNDS,
    BUCKETS,
    DRAWS,
    EVERYWHERE,
    FAILED,
    GARBAGE,
    LATE_WATCHDOG,
    NO_COLLECTION,
    NUMBERS,
    ODD_NUMBERS,
    OTHER_SEEDS,
    TRUTHS,
    UNIT_DRAWS,
    UNKNOWN_DATA,
    Answer,
    Exchange,
    Request,
)
from ...units import gib_text
from .further_runs import Ask, FurtherRuns, not_counted

#: Of these a second further run has another end.
_OF_TWO_ENDS = {NUMBERS, TRUTHS, UNIT_DRAWS, BOUNDS}
#: How the names of parts of it begin.
_OF_HOST = "host memory"
#: Texts of ``Answer.unknown`` that the caveats of the report are about; others are caveats themselves.
_OF_READS = {UNKNOWN_DATA, *_OF_TWO_ENDS}
#: Those that have a run for themselves.
_APART = {BUCKETS, GARBAGE}
#: What variants answer otherwise: any answer may be wrong; the largest size may be too large alone.
_READS = (READ, SIZE_READ, DRAWN)
_VARIED = (*_READS, WORST_CASE)


def ask_with_variants(
    ask: Ask, request: Request, known: Answer | None = None, in_full: Collection[int] = ()
) -> Answer:
    """The answer to ``request`` of the variant that takes most; its caveats say whether they differ.

    ``known``: the answer of the first run, if there was one. ``in_full``: as ``variants_of`` has it.
    No further run where values of other ranks are still to come. One that raises has come to an end that a
    run may come to, by the last that it read: then another keeps that answer, and turns the others. Where it
    raises too, one has all plausible answers, and other draws. Odd numbers may end what a healthy run does:
    their run counts only where it takes more. So does that of a late watchdog, and is no caveat: no test can
    say when it looks. Where Python's collector has freed memory, what takes most of the first run and one
    without it is what the others are compared with. Where others differ, one says whether by draws of
    the host.
    """
    first = known or ask(request)
    following = {one.variant: one for one in variants_of(request, first, in_full)}
    if not following:
        return first
    ask = further = FurtherRuns(ask, first)
    if NO_COLLECTION in following:
        first = _with_garbage(first, ask(following[NO_COLLECTION]))
    others = _others(ask, following) if 1 in following else []
    redrawn = None
    if others and all(map(_has_raised, others)) and {*first.unknown} - {*_OF_READS, *_APART}:
        redrawn = ask(replace(following[1], steady=(EVERYWHERE,)))
    odd, late = (ask(following[one]) if one in following else None for one in (ODD_NUMBERS, LATE_WATCHDOG))
    compared = _Compared(first, others, redrawn, odd, late)
    if compared.may_be_by_draws():
        compared = replace(compared, reseeded=ask(replace(following[1], variant=OTHER_SEEDS)))
    return _together(compared, further)


def _others(ask: Ask, following: Mapping[int, Request]) -> list[Answer]:
    others = [ask(following[1])]
    has_raised = _has_raised(others[0])
    if has_raised or 2 in following or not _OF_TWO_ENDS.isdisjoint(others[0].unknown):
        steady = (others[0].last_read,) if has_raised and others[0].last_read else ()
        others.append(ask(replace(following.get(2, following[1]), variant=2, steady=steady)))
    return others


def _has_raised(answer: Answer) -> bool:
    return answer.outcome == FAILED and answer.raised


def variants_of(request: Request, first: Answer, in_full: Collection[int] = ()) -> list[Request]:
    """The runs after ``request``'s, whose answer is ``first``, if none of them raises.

    ``in_full``: variants that are not asked for their figures first, as all of them will be needed.
    """
    if request.variant or first.unheard or (first.outcome == FAILED and not first.raised):
        return []
    unknown = {*first.unknown}
    further = {
        NO_COLLECTION: GARBAGE in unknown,
        1: bool(unknown - _APART),
        2: not unknown.isdisjoint(_OF_TWO_ENDS),
        ODD_NUMBERS: bool(unknown & {NUMBERS, TRUTHS}),
        LATE_WATCHDOG: BUCKETS in unknown,
    }
    return [
        # a late watchdog changes what is held in nearly all of its runs
        replace(
            request,
            variant=one,
            snapshot=None,
            figures_only=not request.has_components and one not in {LATE_WATCHDOG, *in_full},
        )
        for one, is_asked in further.items()
        if is_asked
    ]


def _with_garbage(first: Answer, kept: Answer) -> Answer:
    """The answer of ``first``, or what takes more: ``kept``, a run in which Python collected nothing."""
    if first.report is None or (kept.has_figure and _parts(kept) == _parts(first)):
        return first
    most = _most([first, kept])
    assert most.report is not None
    figure = f"the figure is {_range([first.peak_bytes, kept.peak_bytes])}"
    if not kept.has_figure:
        figure = f"where it does not, the test has no figure: {_line(kept)}"
    found = [*first.report.caveats, Caveat(COLLECTED, f"{GARBAGE}; {figure}"), *not_counted(most.report)]
    return _as_first(first, most, replace(most.report, caveats=tuple(dict.fromkeys(found))))


def _together(compared: "_Compared", further: FurtherRuns) -> Answer:
    first, most = compared.first, compared.most
    report = most.report
    if report is None or not most.has_figure:
        return first
    report = replace(
        report,
        caveats=tuple(compared.caveats()) if first.has_figure else report.caveats,
        variants=tuple(further.peaks),
        seconds=round(further.seconds, 3),
    )
    return replace(_as_first(first, most, report), sizes=())


def _as_first(first: Answer, most: Answer, report: MemoryReport) -> Answer:
    """``most`` with ``report``, and with all that only the first run says."""
    return replace(
        most,
        reports=(report,),
        properties=first.properties,
        unknown=first.unknown,
        sizes=first.sizes,
        representatives=first.representatives,
        rank_caveats=first.rank_caveats,
        has_snapshot=first.has_snapshot,
        snapshot_error=first.snapshot_error,
        seen=first.seen,
        **{one.name: getattr(first, one.name) for one in fields(Exchange)},
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """The runs of one test."""

    first: Answer
    others: Sequence[Answer]
    redrawn: Answer | None
    """The run with plausible answers and other draws; None where it is not needed."""
    odd: Answer | None
    """The run with odd numbers; None where none was read."""
    late: Answer | None
    """The run with a late watchdog; None where there are no buckets that it lets go of."""
    reseeded: Answer | None = None
    """The run with other draws of the host alone; None where it is not needed."""

    @property
    def runs(self) -> list[Answer]:
        """In the order in which they ran."""
        further = (self.redrawn, self.odd, self.late, self.reseeded)
        return [self.first, *self.others, *(one for one in further if one is not None)]

    @property
    def most(self) -> Answer:
        """The one whose report is the test's."""
        return _most(self.runs)

    def caveats(self) -> Iterator[Caveat]:
        """Those of ``most``; of what was varied only what the figure depends on, and by how much."""
        assert self.first.report is not None
        assert self.most.report is not None
        differ = [self._differs(one) for one in self.others if one.has_figure]
        others_differ = self._depends_on_reads(differ)
        depends = self._odd_takes_more() or others_differ
        lost = next((one for one in self.runs[1:] if one.outcome == FAILED and not one.raised), None)
        for one in self.first.report.caveats:
            if one.cause in _READS and lost is not None:
                reason = _line(lost)
                yield Caveat(DEPENDS, f"{one.text}; with other answers the test has no figure: {reason}")
            elif one.cause in _READS and depends:
                yield self._depending(one.text)
            elif one.cause in _READS and depends is None:
                yield one
            elif one.cause in _READS and self._have_own_sizes():
                yield replace(one, cause=SIZE_READ)
            elif one.cause is WORST_CASE and (not differ or any(differ)):
                is_largest = _most([one for one in self.runs if one is not self.late]) is self.first
                yield one if is_largest else self._depending(one.text)
        if others_differ or lost is not None or (self.redrawn is not None and self._differs(self.redrawn)):
            known = {*_OF_READS, *_APART}
            if self.reseeded is not None and not self._differs(self.reseeded):
                known.update(self._draws())
            yield from (self._depending(what) for what in self.first.unknown if what not in known)
        if self.late is not None and not self.late.has_figure:
            yield self._depending(BUCKETS)
        reports = [one.report for one in self.runs if one.has_figure and one.report is not None]
        others = [one for report in reports for one in not_counted(report)]
        kept = [one for one in self.most.report.caveats if one.cause not in _VARIED]
        collected = [one for one in self.first.report.caveats if one.cause is COLLECTED]
        yield from dict.fromkeys([*kept, *collected, *others])

    def may_be_by_draws(self) -> bool:
        """Whether figures differ by draws of the host, or by something else."""
        draws = self._draws()
        differ = any(one.has_figure and self._differs(one) for one in self.others)
        return differ and bool(draws) and bool({*self.first.unknown} - _APART - draws)

    def _draws(self) -> set[str]:
        return {what for what in self.first.unknown if what.startswith(DRAWS)}

    def _differs(self, one: Answer) -> bool:
        return not one.has_figure or (one.outcome, _parts(one)) != (self.first.outcome, _parts(self.first))

    def _odd_takes_more(self) -> bool:
        others = [one for one in self.runs if one is not self.odd and one is not self.late]
        if self.odd is None:
            return False
        return self.odd.peak_bytes > max(one.peak_bytes for one in others) or (
            self.odd.host_bytes > max(one.host_bytes for one in others)
        )

    def _depends_on_reads(self, differ: Sequence[bool]) -> bool | None:
        """Whether the figure depends on what was read; None where no other run came to its end.

        ``differ``: whether those that did have other figures.
        """
        if any(one.peak_bytes > self.first.peak_bytes for one in self.others if not one.has_figure):
            return True
        return any(differ[: self._comparable]) if differ else None

    @property
    def _comparable(self) -> int:
        """How many of the others say something of numbers: the second may differ by its sizes alone."""
        return 2 if BOUNDS not in self.first.unknown or UNIT_DRAWS in self.first.unknown else 1

    def _have_own_sizes(self) -> bool:
        """Whether sizes are made of numbers, of which nobody knows how large they are.

        One run has a size that no other has, or of one size two have counts that no other has: what a loop
        holds that ends sooner in one of them is in the others too, as is what a truth alone leads to.
        """
        runs = [self.first, *self.others[: self._comparable]]
        has_own_size = any(_own([{size for size, _ in one.sizes} for one in runs]))
        own_counts = Counter(size for own in _own([{*one.sizes} for one in runs]) for size, _ in own)
        return has_own_size or any(count > 1 for count in own_counts.values())

    def _depending(self, text: str) -> Caveat:
        sizes, differing = [one.peak_bytes for one in self.runs], self._differing()
        figure, cause = _range(sizes), DEPENDS
        if len({*sizes}) == 1:
            figure += " too"
            for name in [*differing][:1]:
                figure += f", but {name} {_range(differing[name])}"
                cause = HOST_DEPENDS if all(one.startswith(_OF_HOST) for one in differing) else DEPENDS
        return Caveat(cause, f"{text}; with other answers the figure is {figure}")

    def _differing(self) -> dict[str, list[int]]:
        """The parts in which the runs differ, and what each takes."""
        parts = [_parts(one) for one in self.runs if one.has_figure]
        sizes = {name: [one.get(name, 0) for one in parts] for one in parts for name in one}
        return {name: taken for name, taken in sizes.items() if len({*taken}) > 1}


def _most(runs: Sequence[Answer]) -> Answer:
    """The one that takes most of those with a figure; the first if none has one."""
    with_figures = [one for one in runs if one.has_figure and one.report is not None]
    return max(with_figures, key=lambda one: (one.outcome == OUT_OF_MEMORY, one.peak_bytes), default=runs[0])


def _own(parts: Sequence[set[Any]]) -> list[set[Any]]:
    """What each of ``parts`` has that no other has."""
    return [own.difference(*(other for other in parts if other is not own)) for own in parts]


def _parts(answer: Answer) -> dict[str, int]:
    """All that a budget may be held to, by what it is called in a caveat."""
    report = answer.report
    assert report is not None
    host = report.host
    return {
        **{f"{metric} memory is": size for metric, size in report.peak.items()},
        "what is held when the body ends is": report.held_bytes or 0,
        f"{_OF_HOST} is": answer.host_bytes,
        **{f"the part of {name} is": size for name, size in report.components.items()},
        **({f"{_OF_HOST} of {name} is": size for name, size in host.components.items()} if host else {}),
    }


def _line(lost: Answer) -> str:
    return lost.reason.partition("\n")[0]


def _range(sizes: Sequence[int]) -> str:
    """The least and the most of ``sizes``, or what all of them are."""
    least, most = gib_text(min(sizes)), gib_text(max(sizes))
    if least != most:
        return f"{least} to {most}"
    apart = max(sizes) - min(sizes)
    return f"{least}, and up to {apart:,} bytes more" if apart else least
