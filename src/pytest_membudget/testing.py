"""Gives sessions of tests their estimates without a worker or torch: for tests of conftests and plugins.

A session uses them if its command line names this module and its root conftest has them::

    # conftest.py of the session that is tested
    from pytest_membudget.testing import GivenEstimates, takes

    def pytest_membudget_estimates():
        return GivenEstimates({"test_it.py::test_fits": takes(gib=1)})

    # the test, with pytest's pytester
    result = pytester.runpytest("--membudget", "-p", "pytest_membudget.testing")
    result.assert_outcomes(passed=1)

Nothing is checked in such a session: its header and its summary say so, and ``tool.testing`` in report.json.

PYTEST_DONT_REWRITE: a test that starts several sessions in its own process has this module loaded already.
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from .budgets.budget import Budget
from .budgets.marked_test import MarkedTest
from .budgets.verdict import OUT_OF_MEMORY, SKIPPED
from .caveats import HOW, Caveat
from .components import COMPONENTS, INPUTS, METRICS, METRICS_WITH
from .errors import UsageMistake
from .memory_report import MemoryReport
from .results.advice import Advice, savings_first
from .results.answer import TRACED, Answer, failed, read_answer
from .results.estimator import Estimator, NotEstimated, without_figure
from .results.test_result import TestResult
from .units import bytes_of_gib
from .worker.processes import end_text
from .worker.time_limit import Overrun

__all__ = [
    "Given",
    "GivenDevice",
    "GivenEstimates",
    "error",
    "interrupted",
    "out_of_memory",
    "raises",
    "skips",
    "takes",
    "times_out",
    "worker_dies",
]

#: The plugin that a session's command line names.
MODULE: Final = __name__
#: The caveat of every figure.
_NOT_CHECKED = f"given by {MODULE}: nothing was run"


@dataclass(frozen=True, slots=True)
class Given:
    """The given outcome of a test; the functions of this module make it."""

    answer: Callable[[Budget, str], Answer]
    """A worker's answer for a budget; ``traced`` or ``measured``."""
    tried: Mapping[str, float] = field(default_factory=dict)
    """GiB that it takes with a change, by what to write."""


def takes(
    gib: float,
    *,
    host_gib: float = 0,
    margin: float = 0,
    caveats: Sequence[Caveat] = (),
    tried: Mapping[str, float] | None = None,
    **components: float,
) -> Given:
    """The test takes ``gib`` GiB on each of its ranks, by every metric, and ``host_gib`` of host memory each.

    ``margin``: how much more it may be, as a share of the figure, as of formulas. ``caveats``: what the
    figure rests on or leaves out (``pytest_membudget.caveats``). ``tried``: GiB that it
    takes with a change, as ``{"AdamW(..., fused=True)": 0.5}``. ``components``: GiB of single ones, as
    ``activations=0.75``; the rest are ``inputs``.
    """
    unknown = set(components) - {*COMPONENTS}
    if unknown:
        raise UsageMistake(
            f"takes({min(unknown)}=...): no such component; write one of {', '.join(COMPONENTS)}"
        )

    def answer(budget: Budget, kind: str) -> Answer:
        host = _report(budget, kind, host_gib, {}) if host_gib else None
        reports = [
            replace(_report(budget, kind, gib, components, caveats), rank=rank, host=host, margin=margin)
            for rank in range(budget.gpus)
        ]
        return Answer(TRACED, reports=tuple(reports))

    return Given(answer, tried or {})


def out_of_memory(operator: str = "aten::empty", where: str = "test_it.py:1") -> Given:
    """The card's memory runs out, under ``operator`` in the line ``where``."""
    return _fixed(Answer(OUT_OF_MEMORY, operator, where=where))


def raises(text: str) -> Given:
    """The test's own code raises; ``text`` is the exception's line, as ``"ValueError: no such size"``."""
    return _fixed(failed(text, raised=True))


def error(reason: str) -> Given:
    """The test cannot be estimated; ``reason`` may have several lines."""
    return _fixed(failed(reason))


def skips(reason: str) -> Given:
    """The test skips itself."""
    return _fixed(Answer(SKIPPED, reason))


def times_out(seconds: float = 300.0) -> Given:
    """The test does not end within the time limit."""
    return error(Overrun(seconds, seconds).text())


def worker_dies(exit_code: int = -signal.SIGKILL) -> Given:
    """The worker ends before it answers; ``exit_code`` is an exit status, or minus a signal's number."""
    return error(f"the worker {end_text(exit_code)}")


def interrupted() -> Given:
    """Ctrl-C is pressed while the test is estimated."""

    def answer(budget: Budget, kind: str) -> Answer:
        raise KeyboardInterrupt

    return Given(answer)


class GivenEstimates(Estimator):
    """Estimates by node id; a test without one fails. Scenarios are estimated by formulas all the same."""

    def __init__(
        self,
        estimates: Mapping[str, Given],
        *,
        measured: Mapping[str, Given] | None = None,
        card: str = "a given card",
    ) -> None:
        """``measured``: measurements by node id; ``card``: the card's name."""
        self._estimates = estimates
        self.measurer: Estimator = _GivenMeasurements(measured or {}, card)

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of ``test`` with the given estimate."""
        assert test.budget is not None
        given = self._estimates.get(test.nodeid)
        if given is None:
            return without_figure(test, f"{MODULE} was given no estimate of {test.nodeid}")
        result = read_answer(test, given.answer(test.budget, "traced"))
        return replace(result, properties=(("membudget.testing", _NOT_CHECKED),))

    def advise(self, test: MarkedTest, estimate: MemoryReport, say: Callable[[str], None]) -> Advice | None:
        """The given trials of ``test``."""
        given = self._estimates.get(test.nodeid)
        if given is None or test.budget is None:
            return None
        for write in given.tried:
            say(write)
        limit_bytes = test.budget.limit_bytes or 0
        trials = {write: bytes_of_gib(gib) for write, gib in given.tried.items()}
        listed = savings_first(trials, estimate.peak_bytes, estimate.peak_bytes - limit_bytes)
        return Advice(estimate.peak_bytes, limit_bytes, dict(listed))


class _GivenMeasurements(Estimator):
    def __init__(self, measured: Mapping[str, Given], card: str) -> None:
        self._measured = measured
        self._card = card

    def estimate(self, test: MarkedTest) -> TestResult:
        assert test.budget is not None
        given = self._measured.get(test.nodeid)
        if given is None:
            raise NotEstimated(f"{MODULE} was given no measurement of {test.nodeid}")
        budget = replace(test.budget, host_gib=None)
        result = read_answer(replace(test, budget=budget), given.answer(budget, "measured"))
        named = tuple(replace(one, device=self._card) for one in result.estimates)
        return replace(result, estimates=named)


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device in place of the CUDA card that tests are measured on: for tests of this plugin itself."""

    device: str
    """``module:function``, which makes the device as ``devices.real.device:made_for`` does."""


class _Hooks:
    @pytest.hookspec(firstresult=True)
    def pytest_membudget_estimates(self, config: pytest.Config) -> GivenEstimates | GivenDevice | None:
        """The estimates or the device of the session; a hook of the root conftest or of a plugin."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """The one hook of this module."""
    pluginmanager.add_hookspecs(_Hooks)


def given_to(config: pytest.Config, args: Sequence[str]) -> GivenEstimates | GivenDevice | None:
    """The given estimates or device of the session of ``config``; None if it uses workers.

    ``args``: its command line. Raises ``UsageMistake`` where that does not name this module, or where nothing
    is given.
    """
    if not config.pluginmanager.hasplugin(MODULE):
        return None
    if not any(MODULE in arg for arg in args):
        raise UsageMistake(
            f"{MODULE} is for sessions that tests start, which check nothing: name it on the command line "
            f"(-p {MODULE}), not in a conftest or in settings; take it out to check budgets"
        )
    given: GivenEstimates | GivenDevice | None = config.hook.pytest_membudget_estimates(config=config)
    if given is None:
        raise UsageMistake(
            f"-p {MODULE}: no estimates are given; write pytest_membudget_estimates in the root conftest"
        )
    return given


def _report(
    budget: Budget, kind: str, gib: float, components: Mapping[str, float], caveats: Sequence[Caveat] = ()
) -> MemoryReport:
    size_bytes = bytes_of_gib(gib)
    held = {name: bytes_of_gib(part) for name, part in components.items()}
    empty = {name: 0 for name in COMPONENTS if budget.metric in METRICS_WITH.get(name, METRICS)}
    rest = {INPUTS: held.get(INPUTS, 0) + size_bytes - sum(held.values())}
    peak = dict.fromkeys(METRICS, size_bytes)
    given = (Caveat(HOW, _NOT_CHECKED), *caveats)
    return MemoryReport(kind, budget.metric, peak, {**empty, **held, **rest}, caveats=given)


def _fixed(answer: Answer) -> Given:
    return Given(lambda budget, kind: answer)
