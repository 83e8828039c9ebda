"""Runs a test again where its figure may depend on what nobody knows, and says whether it does."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ...budgets.verdict import OUT_OF_MEMORY
from ...caveats import DEPENDS, Caveat
from ...memory_report import MemoryReport
from ...results import varied
from ...results.answer import FAILED, Answer, Request
from .compared_runs import Compared, first_line, most_of, not_counted, parts_of

Ask = Callable[[Request], Answer]

#: Lines at which a test may raise by what is plausible before it comes to its end.
_MOST_RAISING: Final = 8
#: Variants in which nothing but garbage, a watchdog and choices differ.
_PLAUSIBLE: Final = {varied.NO_COLLECTION, varied.LATE_WATCHDOG, varied.FIRST_OPTIONS}


class FurtherRuns:
    """Asks for further runs: for their figures, and for all of one that is not the same as one before it.

    Runs with the same allocations and figures, which leave out the same, are the same. One that ended without
    a figure says how much it took, which counts where it is more than the first run's.
    """

    def __init__(self, ask: Ask, first: Answer) -> None:
        self._ask = ask
        self._known = [first]
        #: of each that was asked for the peak
        self.peaks: list[int] = []
        #: what all of them took
        self.seconds = _seconds(first)

    def __call__(self, request: Request) -> Answer:
        """The answer to ``request``, or that of an earlier run that is the same."""
        answer = self._asked(request)
        self.peaks.append(answer.peak_bytes)
        first = self._known[0]
        takes_more = answer.peak_bytes > first.peak_bytes or answer.host_bytes > first.host_bytes
        if not request.figures_only or not (answer.has_figure or takes_more):
            return answer
        known = next((one for one in self._known if _totals(one) == _totals(answer)), None)
        if known is None:
            known = self._asked(replace(request, figures_only=False))
        return replace(known, unknown=answer.unknown)  # a copy: runs are compared by identity

    def _asked(self, request: Request) -> Answer:
        answer = self._ask(request)
        endless = varied.WAITING if answer.outcome == OUT_OF_MEMORY else varied.ENDLESS
        if endless in answer.unknown and answer.peak_bytes > self._known[0].peak_bytes:
            answer = replace(answer, outcome=FAILED, reason=endless)  # how often it runs is our answer alone
        if not request.figures_only:
            self._known.append(answer)
        self.seconds += _seconds(answer)
        return answer


def _totals(answer: Answer) -> object:
    """What a run says that was asked for its figures alone."""
    report = answer.report
    peaks = (report.peak, report.held_bytes, not_counted(report)) if report is not None else ()
    return answer.outcome, answer.allocations, answer.host_bytes, peaks


def _seconds(answer: Answer) -> float:
    return answer.report.seconds if answer.report is not None else 0.0


def ask_with_variants(
    ask: Ask, request: Request, known: Answer | None = None, in_full: Collection[int] = ()
) -> Answer:
    """The answer to ``request`` of the variant that takes most; its caveats say whether they differ.

    ``known``: the answer of the first run, if there was one. ``in_full``: as ``variants_of`` has it. No
    further run where values of other ranks are still to come. One that raises has come to an end that a run
    may come to, by the last that it read: then another keeps that answer, and turns the others. Where it
    raises too, further ones keep one more such answer each; if those raise, one has all plausible answers,
    and other draws. Where the first has raised by a truth, as an assertion, one without it takes its place;
    if that has no figure, two others must agree. Where all raise, one selects nothing by masks that nobody
    knows, as of what an assertion found to differ, and has plausible answers. Where each run has other sizes,
    two more say whether those follow from truths, of which both were tried: with the same truths they have
    other numbers. Odd numbers may end what a healthy run does: their run counts only where it takes more, as
    does that of falling ones. So does that of a late watchdog, and is no caveat: no test can say when it
    looks; and that in which nothing chooses some options, which is the worst case then. Where Python's
    collector has freed memory, what takes most of the first run and one without it is what the others are
    compared with. Where others differ, one says whether by draws of the host. Where the second has the least
    sizes, a run in which only draws, of the host and of the card, are at their upper end counts in its place.
    """
    first = known or ask(request)
    if _has_raised(first) and variants_of(request, first):
        request, first = _going_on(ask, request, first)
    following = {one.variant: one for one in variants_of(request, first, in_full)}
    if not following:
        return first
    ask = further = FurtherRuns(ask, first)
    if varied.NO_COLLECTION in following:
        first = _with_garbage(first, ask(following[varied.NO_COLLECTION]))
    others = _others(ask, following, first) if 1 in following else []
    redrawn, unknown = None, {*first.unknown}
    if others and all(map(_has_raised, others)) and unknown - varied.OF_READS - varied.APART:
        redrawn = ask(replace(following[1], steady=(*request.steady, varied.EVERYWHERE)))
    elif varied.BOUNDS in unknown and unknown & {varied.HOST_ENDS, varied.CARD_DRAWS}:
        redrawn = ask(replace(following[1], variant=varied.UPPER_DRAWS))
    odd = [ask(following[one]) for one in (varied.ODD_NUMBERS, varied.FALLING) if one in following]
    if varied.BOUNDS in unknown and all(map(_has_raised, (first, *others, *odd))):
        odd.append(ask(replace(following[varied.ODD_NUMBERS], steady=(*request.steady, varied.EVERYWHERE))))
    alone = (varied.LATE_WATCHDOG, varied.FIRST_OPTIONS)
    late, left = (ask(following[one]) if one in following else None for one in alone)
    compared = Compared(first, others, redrawn, odd, late, left)
    if compared.may_be_by_draws():
        compared = replace(compared, reseeded=_reseeded(ask, following[1], compared))
    if compared.may_be_by_truths():
        numbers = replace(following[1], steady=(*request.steady, varied.ALL_TRUTHS))
        both = replace(following[1], variant=2, steady=(*request.steady, varied.NOWHERE))
        compared = replace(compared, paired=(ask(numbers), ask(both)))
    return _together(first, compared, further)


def _going_on(ask: Ask, request: Request, first: Answer) -> tuple[Request, Answer]:
    """A run without the truths by which ``first`` has raised, and its request; else what is given."""
    asked, answer = request, first
    for _ in range(_MOST_RAISING):
        line = varied.TURNED + answer.last_read
        if not _has_raised(answer) or line in asked.steady:
            break
        asked = replace(asked, steady=(*asked.steady, line))
        answer = ask(asked)
    goes_on = answer.has_figure and answer.peak_bytes >= first.peak_bytes
    return (asked, answer) if goes_on else (request, first)


def _others(ask: Ask, following: Mapping[int, Request], first: Answer) -> list[Answer]:
    others = [ask(following[1])]
    has_raised = _has_raised(others[0])
    has_two_ends = 2 in following or not varied.OF_TWO_ENDS.isdisjoint(others[0].unknown)
    if _has_raised(first) or has_raised or has_two_ends:
        steady = (others[0].last_read,) if has_raised and others[0].last_read else ()
        request = following.get(2, following[1])
        others.append(ask(replace(request, variant=2, steady=(*request.steady, *steady))))
    return [*others, *_past_what_raises(ask, following[1], others)]


def _past_what_raises(ask: Ask, request: Request, others: Sequence[Answer]) -> Iterator[Answer]:
    """Where ``others`` have all raised: runs as the first, each without one more of the answers by which."""
    last, steady = others[0], request.steady
    if not all(map(_has_raised, others)):
        return
    for _ in range(_MOST_RAISING):
        if not _has_raised(last) or not last.last_read or last.last_read in steady:
            return
        steady = (*steady, last.last_read)
        last = ask(replace(request, steady=steady))
        yield last


def _reseeded(ask: Ask, request: Request, compared: Compared) -> Answer:
    """The run with other draws alone that differs, or the last."""
    answer = ask(replace(request, variant=varied.OTHER_SEEDS))
    if varied.HOST_ENDS in compared.first.unknown and not compared.peaks_differ(answer):
        answer = compared.redrawn or ask(replace(request, variant=varied.UPPER_DRAWS))
    return answer


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
        varied.NO_COLLECTION: varied.GARBAGE in unknown,
        1: bool(unknown - varied.APART),
        2: not unknown.isdisjoint(varied.OF_TWO_ENDS),
        varied.ODD_NUMBERS: bool(unknown & {varied.NUMBERS, varied.TRUTHS, varied.BOUNDS, varied.FINITE}),
        varied.FALLING: varied.LOOPS in unknown,
        varied.LATE_WATCHDOG: varied.WATCHDOG in unknown,
        varied.FIRST_OPTIONS: varied.CHOICES in unknown,
    }
    return [
        # a late watchdog changes what is held in nearly all of its runs
        replace(
            request,
            variant=one,
            snapshot=None,
            figures_only=not request.has_components and one not in {varied.LATE_WATCHDOG, *in_full},
            varies_imports=varied.IMPORTS in unknown and one not in _PLAUSIBLE,
        )
        for one, is_asked in further.items()
        if is_asked
    ]


def _with_garbage(first: Answer, kept: Answer) -> Answer:
    """The answer of ``first``, or what takes more: ``kept``, a run in which Python collected nothing."""
    if first.report is None or (kept.has_figure and parts_of(kept) == parts_of(first)):
        return first
    most = most_of([first, kept])
    lost = f"{varied.GARBAGE}; where it does not, the test has no figure: {first_line(kept)}"
    compared = Compared(first, [kept])
    depending = compared.of_garbage() if kept.has_figure else [Caveat(DEPENDS, lost)]
    found = [*first.report.caveats, *depending, *not_counted(most.own_report)]
    return _as_first(first, most, replace(most.own_report, caveats=tuple(dict.fromkeys(found))))


def _together(first: Answer, compared: Compared, further: FurtherRuns) -> Answer:
    most = compared.most
    report = most.report
    if report is None or not most.has_figure:
        return first
    report = replace(
        report,
        caveats=tuple(compared.caveats() if compared.first.has_figure else compared.without_first()),
        variants=tuple(further.peaks),
        seconds=round(further.seconds, 3),
    )
    return replace(_as_first(first, most, report), sizes=())


def _as_first(first: Answer, most: Answer, report: MemoryReport) -> Answer:
    """``first`` as ``most`` has ended, with ``report``; all else only the first run says."""
    return replace(
        first,
        outcome=most.outcome,
        reason=most.reason,
        details=most.details,
        where=most.where,
        raised=most.raised,
        warnings=most.warnings,
        reports=(report,),
    )
