"""FurtherRuns: asks for further runs of a test, and for no more of each than counts."""

from collections.abc import Callable
from dataclasses import replace

from ...budgets.verdict import OUT_OF_MEMORY
from ...caveats import MISSING, Caveat
from ...memory_report import MemoryReport
from ...results.answer import ENDLESS, FAILED, WAITING, Answer, Request

Ask = Callable[[Request], Answer]


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
        endless = WAITING if answer.outcome == OUT_OF_MEMORY else ENDLESS
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


def not_counted(report: MemoryReport) -> tuple[Caveat, ...]:
    """The caveats of ``report`` that name memory missing in it."""
    return tuple(one for one in report.caveats if one.kind == MISSING)


def _seconds(answer: Answer) -> float:
    return answer.report.seconds if answer.report is not None else 0.0
