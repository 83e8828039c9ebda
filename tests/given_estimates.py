"""Estimates that a test of the gate gives in place of a worker's. A session's conftest has them::

    from given_estimates import given, takes

    def pytest_membudget_estimates():
        return given({"test_it.py::test_fits": takes(gib=1)})

and its command line ``-p pytest_membudget.testing``. ``tests.conftest.write_files`` copies this file to it.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import OUT_OF_MEMORY, SKIPPED
from pytest_membudget.caveats import HOW, Caveat
from pytest_membudget.components import COMPONENTS, INPUTS, METRICS, METRICS_WITH
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.advice import Advice, savings_first
from pytest_membudget.results.answer import TRACED, Answer, failed, read_answer
from pytest_membudget.results.estimator import Estimator, NotEstimated, without_figure
from pytest_membudget.testing import MODULE, GivenEstimates
from pytest_membudget.units import bytes_of_gib
from pytest_membudget.worker.processes import end_text
from pytest_membudget.worker.time_limit import Overrun

#: The caveat of every figure.
_NOT_CHECKED = f"given by {MODULE}: nothing was run"


@dataclass(frozen=True, slots=True)
class Given:
    """The given outcome of a test; the functions of this module make it."""

    answer: Callable[[Budget, str], Answer]
    """A worker's answer for a budget; ``traced`` or ``measured``."""
    tried: Mapping[str, float] = field(default_factory=dict)
    """GiB that it takes with a change, by what to write."""


def takes(gib, *, host_gib=0, margin=0, caveats=(), tried=None, **components):
    """The test takes ``gib`` GiB on each of its ranks, by every metric, and ``host_gib`` of host memory each.

    ``margin``: how much more it may be, as a share of the figure, as of formulas. ``caveats``: what the
    figure rests on or leaves out (``pytest_membudget.caveats``). ``tried``: GiB that it
    takes with a change, as ``{"AdamW(..., fused=True)": 0.5}``. ``components``: GiB of single ones, as
    ``activations=0.75``; the rest are ``inputs``.
    """

    def answer(budget, kind):
        host = _report(budget, kind, host_gib, {}) if host_gib else None
        reports = [
            replace(_report(budget, kind, gib, components, caveats), rank=rank, host=host, margin=margin)
            for rank in range(budget.gpus)
        ]
        return Answer(TRACED, reports=tuple(reports))

    return Given(answer, tried or {})


def out_of_memory(operator="aten::empty", where="test_it.py:1"):
    """The card's memory runs out, under ``operator`` in the line ``where``."""
    return _fixed(Answer(OUT_OF_MEMORY, operator, where=where))


def raises(text):
    """The test's own code raises; ``text`` is the exception's line, as ``"ValueError: no such size"``."""
    return _fixed(failed(text, raised=True))


def error(reason):
    """The test cannot be estimated; ``reason`` may have several lines."""
    return _fixed(failed(reason))


def skips(reason):
    """The test skips itself."""
    return _fixed(Answer(SKIPPED, reason))


def times_out(seconds=300.0):
    """The test does not end within the time limit."""
    return error(Overrun(seconds, seconds).text())


def worker_dies(exit_code=-signal.SIGKILL):
    """The worker ends before it answers; ``exit_code`` is an exit status, or minus a signal's number."""
    return error(f"the worker {end_text(exit_code)}")


def interrupted():
    """Ctrl-C is pressed while the test is estimated."""

    def answer(budget, kind):
        raise KeyboardInterrupt

    return Given(answer)


def given(
    estimates: Mapping[str, Given],
    measured: Mapping[str, Given] | None = None,
    card: str = "a given card",
) -> GivenEstimates:
    """By node id; a test without one fails. ``measured``: measurements; ``card``: the card's name."""
    return GivenEstimates(_Estimates(estimates), _Measurements(measured or {}, card))


class _Estimates(Estimator):
    def __init__(self, estimates):
        self._estimates = estimates

    def estimate(self, test):
        given = self._estimates.get(test.nodeid)
        if given is None:
            return without_figure(test, f"{MODULE} was given no estimate of {test.nodeid}")
        result = read_answer(test, given.answer(test.budget, "traced"))
        return replace(result, properties=(("membudget.testing", _NOT_CHECKED),))

    def advise(self, test, estimate, say):
        given = self._estimates.get(test.nodeid)
        if given is None:
            return None
        for write in given.tried:
            say(write)
        limit_bytes = test.budget.limit_bytes or 0
        trials = {write: bytes_of_gib(gib) for write, gib in given.tried.items()}
        listed = savings_first(trials, estimate.peak_bytes, estimate.peak_bytes - limit_bytes)
        return Advice(estimate.peak_bytes, limit_bytes, dict(listed))


class _Measurements(Estimator):
    def __init__(self, measured, card):
        self._measured = measured
        self._card = card

    def estimate(self, test):
        given = self._measured.get(test.nodeid)
        if given is None:
            raise NotEstimated(f"{MODULE} was given no measurement of {test.nodeid}")
        budget = replace(test.budget, host_gib=None)
        result = read_answer(replace(test, budget=budget), given.answer(budget, "measured"))
        named = tuple(replace(one, device=self._card) for one in result.estimates)
        return replace(result, estimates=named)


def _report(budget, kind, gib, components, caveats=()):
    size_bytes = bytes_of_gib(gib)
    held = {name: bytes_of_gib(part) for name, part in components.items()}
    empty = {name: 0 for name in COMPONENTS if budget.metric in METRICS_WITH.get(name, METRICS)}
    rest = {INPUTS: held.get(INPUTS, 0) + size_bytes - sum(held.values())}
    peak = dict.fromkeys(METRICS, size_bytes)
    given = (Caveat(HOW, _NOT_CHECKED), *caveats)
    return MemoryReport(kind, budget.metric, peak, {**empty, **held, **rest}, caveats=given)


def _fixed(answer):
    return Given(lambda budget, kind: answer)
