"""Which card a budget is measured on, and why it is not, in words."""

from contextlib import contextmanager

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marked_test import MarkedTest
from pytest_membudget.budgets.verdict import ERROR, WITHIN
from pytest_membudget.results.answer import TRACED, Answer, failed
from pytest_membudget.results.estimator import NotEstimated
from pytest_membudget.worker.client import measuring
from pytest_membudget.worker.client.measuring import MeasuringEstimator
from pytest_membudget.worker.client.order import Order
from tests.worker.scripted_worker import ScriptedWorkers


def card_of(**properties):
    """What a worker says of its card."""
    return Answer(TRACED, properties=tuple(properties.items()))


NAMED = {"name": "NVIDIA H100 80GB HBM3", "total_bytes": 85_000_000_000}
H100, TWO = card_of(count=1, **NAMED), card_of(count=2, **NAMED)
ORDER = Order(args=[], dir="/", files=["t.py"], gpu="H100-80GB", timeout=10.0)


def measured(estimator, budget):
    return estimator.estimate(MarkedTest("t.py::t", "t.py::t", "t.py", "t.py", 1, budget))


def why_not(estimator, budget):
    with pytest.raises(NotEstimated) as raised:
        measured(estimator, budget)
    return str(raised.value)


@pytest.fixture
def locked(monkeypatch):
    """The devices of each lock that is taken, instead of taking them."""
    taken = []

    @contextmanager
    def noting(names):
        taken.append(list(names))
        yield

    monkeypatch.setattr(measuring, "lock_gpus", noting)
    return taken


def measurer_of(workers, environment=None):
    return MeasuringEstimator(ORDER, environment or {}, device="a:stand_in", start=workers)


@pytest.mark.parametrize(
    ("card", "budget", "said"),
    [
        (card_of(count=0), Budget(gib=1), "torch sees no device"),
        (failed("it crashed\nhere"), Budget(gib=1), "could not be asked: it crashed"),
        (H100, Budget(gib=1, gpus=2), "1 CUDA devices, and gpus=2"),
        (H100, Budget(gpu="H200"), "is smaller than gpu='H200'"),
    ],
)
def test_the_reason_is_reported(locked, card, budget, said):
    assert said in why_not(measurer_of(ScriptedWorkers(card=card)), budget)


@pytest.mark.parametrize("budget", [Budget(gpu="H100-80GB"), Budget(gib=1)])
def test_the_card_that_was_named_measures(locked, budget):
    found = measured(measurer_of(ScriptedWorkers(card=H100)), budget)

    assert (found.verdict, found.estimates[0].device) == (WITHIN, "NVIDIA H100 80GB HBM3")


# Who waits for which card


def test_each_test_has_the_card_alone_and_one_worker_measures_them(locked):
    workers = ScriptedWorkers(card=H100)
    measurer = measurer_of(workers)
    found = [measured(measurer, Budget(gib=10)) for _ in range(2)]

    assert [estimate.verdict for estimate in found] == [WITHIN, WITHIN]
    assert locked == [["0"], ["0"]]
    assert [worker.is_closed for worker in workers.workers] == [False]


def test_a_worker_that_was_asked_for_the_card_alone_leaves_it(locked):
    workers = ScriptedWorkers(card=H100)
    measurer = measurer_of(workers)
    for _ in range(2):
        why_not(measurer, Budget(gpu="H200"))

    assert [worker.is_closed for worker in workers.workers] == [True]
    assert measured(measurer, Budget(gib=10)).verdict == WITHIN


def test_host_memory_alone_is_not_measured(locked):
    assert (
        why_not(measurer_of(ScriptedWorkers()), Budget(host_gib=10)) == "its budget is of host memory alone"
    )
    assert locked == []


# Several GPUs


class Ranks:
    """Stands for the ranks of a test: what they are started for, and one answer for all of them."""

    def __init__(self, answer):
        self.answer = answer
        self.orders = []

    def __call__(self, order, gpus, request):
        self.orders.append((order, gpus, request))
        return self.answer


@pytest.fixture
def ranks(monkeypatch):
    found = Ranks(failed("rank 1 of 2: it left", failed_rank=1))
    monkeypatch.setattr(measuring, "measure_ranks", found)
    return found


def test_several_gpus_are_all_taken(locked, ranks):
    environment = {"CUDA_VISIBLE_DEVICES": "3,1,0"}
    budget = Budget(gib=10, gpus=2, host_gib=5)
    found = measured(measurer_of(ScriptedWorkers(card=TWO), environment), budget)

    assert (found.verdict, found.reason, found.rank) == (ERROR, "rank 1 of 2: it left", 1)
    assert locked == [["3"], ["3", "1"]]
    ((order, gpus, request),) = ranks.orders
    assert (gpus, order.device) == (2, "a:stand_in")
    assert order.backend == "cpu:gloo,cuda:nccl"
    assert (request.key, request.metric, request.snapshot) == ("t.py::t", "allocated", None)


def test_more_gpus_than_there_are_start_nothing(locked, ranks):
    reason = why_not(measurer_of(ScriptedWorkers(card=TWO)), Budget(gib=10, gpus=3))

    assert reason == "2 CUDA devices, and gpus=3"
    assert ranks.orders == []
    assert locked == [["0"]]
