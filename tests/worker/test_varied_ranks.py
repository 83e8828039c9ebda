"""Which ranks are given other answers, and what is said of those that are not."""

from dataclasses import replace

import pytest

from pytest_membudget.caveats import HOW, PROCESS, READ, Caveat
from pytest_membudget.memory_report import MemoryReport, PeakBytes
from pytest_membudget.results.answer import Answer, Request
from pytest_membudget.worker.client.varied_ranks import VariedRanks

REQUEST = Request("k", "a.py", "H100-80GB", False, "allocated", "snapshot.pickle")
LOSS = Caveat(READ, "a.py:1 reads a float32 value (once): taken to be 1.0")
NORM = Caveat(READ, "a.py:3 reads a float32 value (once): taken to be 1.0")


def traced(size_bytes, rank=0, caveat=LOSS, host_bytes=8, components=(), **more):
    peak = PeakBytes(size_bytes, size_bytes, size_bytes, size_bytes)
    host = MemoryReport("traced", "allocated", PeakBytes(*[host_bytes] * 4), dict(components), rank=rank)
    report = MemoryReport(
        "traced", "allocated", peak, {}, rank=rank, host=host, caveats=(caveat,), seconds=rank
    )
    return Answer("traced", reports=(report,), unknown=("data",), **more)


class Asked:
    """Answers other runs, and keeps whose they were."""

    def __init__(self):
        self.ranks = []

    def __call__(self, request):
        self.ranks.append(request.rank)
        return traced(9, request.rank)


def answers(*firsts):
    """What comes of the ranks whose first runs these are, and which of them had others."""
    asked = Asked()
    ranks = VariedRanks(asked)
    requests = [REQUEST.of_rank(rank, len(firsts)) for rank in range(len(firsts))]
    found = [ranks.answer(request, first) for request, first in zip(requests, firsts, strict=True)]
    return [one.report for one in found], asked.ranks


#: What rank 1 did, where rank 0 took 4 bytes and read a loss.
OTHERS = {
    "more": traced(5, 1),
    "more on the host": traced(4, 1, host_bytes=9),
    "read at another line": traced(4, 1, NORM),
    "read another last": traced(4, 1, last_read="a.py:9"),
    "made a size of it": traced(4, 1, sizes=((2, 4),)),
    "drew numbers": replace(traced(4, 1), unknown=("data", "numbers")),
    "raised": replace(traced(4, 1), outcome="error", reason="ValueError", raised=True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_rank_that_did_something_else_is_given_other_answers_too(name):
    reports, ranks = answers(traced(4), OTHERS[name])

    assert {*ranks} == {0, 1}
    assert [report.peak_bytes for report in reports] == [9, 9]
    assert all(one.cause is not HOW for report in reports for one in report.caveats)


def test_one_that_did_the_same_takes_what_the_other_took_with_them():
    """It may read another time, start other processes, and hold other things on the host at its peak."""
    clock, make = replace(LOSS, text=LOSS.text.replace("1.0", "7.5")), Caveat(PROCESS, "make is started")
    first, other = traced(4, components=[("inputs", 4)]), traced(4, 1, clock, broadcasts="its own")
    first = replace(first, reports=(replace(first.report, caveats=(LOSS, make)),))

    reports, ranks = answers(first, other)

    assert ranks == [0]
    assert [(report.rank, report.peak_bytes) for report in reports] == [(0, 9), (1, 9)]
    text = "other answers were given to rank 0 alone, which did the same"
    assert [one.text for one in reports[1].caveats if one.cause is HOW] == [text]


def test_one_that_read_nothing_is_as_it_ran():
    reports, ranks = answers(*(replace(traced(4, rank), unknown=()) for rank in (0, 1)))

    assert ranks == []
    assert [report.caveats for report in reports] == [(LOSS,), (LOSS,)]


def test_who_waits_for_values_of_others_stands_for_nobody():
    _, ranks = answers(traced(4, unheard=(1,)), traced(4, 1))

    assert ranks == [1]
