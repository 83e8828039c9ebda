"""Gives other answers once to ranks that have done the same: whose they are is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...caveats import ASSUMED, HOW, UNCHECKED, Caveat
from ...results.answer import Answer, Request
from .variants import Ask, ask_with_variants, following_variant, variants_of

#: What follows in the text of a read.
_VALUE: Final = ": taken to be "


class VariedRanks:
    """The further runs of one test's ranks: of those whose first runs did the same, of one for all."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        #: the ranks whose further runs are asked for, with what they did
        self._varied: list[tuple[Request, object]] = []
        self._answers: dict[Request, Answer] = {}

    def further(self, request: Request, first: Answer) -> list[Request]:
        """As ``variants_of``, without those whose answers there are."""
        like = self._like(request, first)
        return [one for one in variants_of(like, first) if one not in self._answers]

    def answer(self, request: Request, first: Answer) -> Answer:
        """As ``ask_with_variants``, where ``first`` answers ``request``."""
        like = self._like(request, first)
        answer = ask_with_variants(self._ask_once, like, first)
        if like is request or answer.report is None:
            return answer
        caveat = Caveat(HOW, f"other answers were given to rank {like.rank} alone, which did the same")
        report = replace(answer.report, rank=request.rank, caveats=(*answer.report.caveats, caveat))
        return replace(answer, reports=(report,))

    def _ask_once(self, request: Request) -> Answer:
        if request not in self._answers:
            self._answers[request] = self._ask(request)
        return self._answers[request]

    def _like(self, request: Request, first: Answer) -> Request:
        """The rank whose further runs are those of ``request``, which is answered by ``first``."""
        if following_variant(request, first) is None:
            return request
        did = _did(first)
        like = next((other for other, what in self._varied if what == did), None)
        if like is None:
            self._varied.append((request, did))
        return like or request


def _did(answer: Answer) -> object:
    """All that a run read, allocated and held, and how it ended; whose it was is left out.

    So are the values that reads were given, some of which are times, and which of the host's memory is what,
    as its threads are not in step: what the run did with them is there.
    """
    report = answer.report
    done = (answer.outcome, answer.reason, answer.unknown, answer.sizes, answer.last_read)
    if report is None:
        return done
    reads = [one.text.partition(_VALUE)[0] for one in report.caveats if one.kind in (ASSUMED, UNCHECKED)]
    host = report.host.peak if report.host is not None else None
    return *done, reads, host, replace(report, rank=0, seconds=0.0, host=None, caveats=())
