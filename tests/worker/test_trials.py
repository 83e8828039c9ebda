"""The requests and the results of trials: a test over its budget is run again with changes."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marked_test import MarkedTest
from pytest_membudget.components import METRICS
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.results.advice import CHANGES
from pytest_membudget.results.answer import TRACED, Answer, failed
from pytest_membudget.worker.client.order import Order
from pytest_membudget.worker.client.tracing import TracingEstimator
from tests.worker.scripted_worker import REPORT, ScriptedWorkers

GIB = 2**30
TITLES = {change.name: change.title for change in CHANGES}
#: GiB with each change, where the test takes 4 GiB without.
TAKES = {None: 4, "checkpointing": 3.5, "chunked_cross_entropy": 2, "half_batch": 4, "step_in_backward": 1}


def traced(request, **more):
    """4 GiB, or what is in ``TAKES`` for the change; that of an optimizer's step finds nothing to change."""
    change = request.change
    held = {"parameters": GIB // 2, "gradients": GIB // 2, "activations": int((TAKES[change] - 1) * GIB)}
    report = replace(REPORT, peak=dict.fromkeys(METRICS, sum(held.values())), components=held)
    changed = change if change and change != "step_in_backward" else ""
    return replace(Answer(TRACED, reports=(report,), changed=changed), **more)


def advised(answer_to=traced, budget=None, timeout=60.0, processes=1):
    """The estimate of a test with its advice, and the requests that were sent."""
    workers = ScriptedWorkers(answer_to, holds=processes)
    order = Order(args=(), dir="/", files=["t.py"], gpu="H100-80GB", timeout=timeout, processes=processes)
    estimator = TracingEstimator(order, start=workers)
    fixtures = frozenset({"batch_size"})
    test = MarkedTest("t", "t", "t.py", "t.py", 1, budget or Budget(gib=1), fixtures=fixtures)
    estimate = estimator.estimate(test)
    said = []
    advice = estimator.advise(test, estimate.estimates[0], said.append)
    estimator.close()
    sent = [request for worker in workers.workers for request in worker.sent]
    assert said == [] or said == [TITLES[request.change] for request in sent if request.change]
    return estimate, advice, sent


@pytest.mark.parametrize("processes", [1, 2])
def test_those_that_save_are_listed_and_the_estimate_is_as_it_was(processes):
    estimate, advice, sent = advised(processes=processes)

    assert estimate.verdict == "over"
    assert estimate.estimates[0].peak_bytes == advice.bytes == 4 * GIB
    assert [*advice.trials.items()] == [
        ("steps.linear_cross_entropy for chunked_cross_entropy", 2 * GIB),
        ("checkpointing", 3.5 * GIB),
    ]
    assert sent[0].change is None
    assert sorted(request.change for request in sent[1:]) == sorted(set(TAKES) - {None})


def test_what_the_run_has_changed_is_in_what_to_write():
    _, advice, _ = advised(lambda request: traced(request, changed=f"12 x {request.change}"))

    assert "12 x checkpointing" in advice.trials


@pytest.mark.parametrize(
    "failure",
    [WorkerFailure("it is lost"), failed("it hangs")],
    ids=["lost", "error"],
)
def test_a_trial_that_comes_to_no_end_is_not_listed(failure):
    _, advice, _ = advised(lambda request: failure if request.change == "checkpointing" else traced(request))

    assert [*advice.trials] == ["steps.linear_cross_entropy for chunked_cross_entropy"]


def test_after_the_time_limit_none_is_begun():
    _, advice, sent = advised(timeout=0.0)

    assert len(sent) == 1
    assert advice.tried == {}
    assert set(advice.untried) == {TITLES[name] for name in TAKES if name}


def test_trials_of_a_test_that_ran_out_of_memory_have_no_limit():
    def answer_to(request):
        if request.limited:
            return traced(request, outcome="out_of_memory", reason="no memory", where="t.py:1")
        return traced(request)

    _, advice, sent = advised(answer_to, Budget(gpu="H100-80GB"))

    assert [(request.limited, request.change) for request in sent[:2]] == [
        (True, None),
        (False, None),
    ]
    assert not any(request.limited for request in sent[1:])
    assert advice.bytes == 4 * GIB


def test_several_gpus_are_not_tried():
    _, advice, sent = advised(budget=Budget(gib=1, gpus=2))

    assert advice is None
    assert not any(request.change for request in sent)
