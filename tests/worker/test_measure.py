"""Which card a budget is measured on, and why it is not, in words."""

from contextlib import contextmanager

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import ERROR, WITHIN, Verdict
from pytest_membudget.worker.client import measure
from pytest_membudget.worker.client.estimator import Estimate
from pytest_membudget.worker.client.measure import Measurer, NotMeasured, _unfit
from pytest_membudget.worker.client.order import Order

H100 = {"count": 1, "name": "NVIDIA H100 80GB HBM3", "total_bytes": 85_000_000_000}
ORDER = Order(args=[], dir="/", files=["t.py"], gpu="H100-80GB", timeout=10.0)


@pytest.mark.parametrize(
    ("card", "budget", "said"),
    [
        ({"count": 0}, Budget(gib=1), "torch sees no device"),
        ({"outcome": "error", "reason": "it crashed\nhere"}, Budget(gib=1), "could not be asked: it crashed"),
        (H100, Budget(gib=1, gpus=2), "1 CUDA devices, and gpus=2"),
        (H100, Budget(gpu="H200"), "is smaller than gpu='H200'"),
    ],
)
def test_the_reason_is_told(card, budget, said):
    assert said in _unfit(card, budget)


def test_the_card_that_was_named_measures():
    assert _unfit(H100, Budget(gpu="H100-80GB")) is None
    assert _unfit(H100, Budget(gib=1)) is None


# Who waits for which card


class Workers:
    """Stands for the workers of a session: each estimate that is asked for is the next of ``estimates``."""

    def __init__(self, estimates, card=H100):
        self.estimates = list(estimates)
        self.card = card
        self.asked = self.closed = 0

    def card_for(self, file):
        self.asked += 1
        return self.card

    def estimate(self, key, file, budget):
        return self.estimates.pop(0)

    def close(self):
        self.closed += 1


@pytest.fixture
def locked(monkeypatch):
    """The devices of each lock that is taken, instead of taking them."""
    taken = []

    @contextmanager
    def noting(names):
        taken.append(list(names))
        yield

    monkeypatch.setattr(measure, "lock_gpus", noting)
    return taken


def measurer_of(workers, environment=None):
    measurer = Measurer(ORDER, environment or {}, device="a:stand_in")
    measurer._estimator = workers
    return measurer


WITHIN_IT = Estimate(Verdict(WITHIN, "fine"))


def test_each_test_has_the_card_alone_and_the_card_is_asked_for_once_a_session(locked):
    workers = Workers([WITHIN_IT, WITHIN_IT])
    measurer = measurer_of(workers)
    found = [measurer.measure("t.py::t", "t.py", Budget(gib=10)) for _ in range(2)]

    assert found == [WITHIN_IT, WITHIN_IT]
    assert locked == [["0"], ["0"]]
    assert (workers.asked, workers.closed) == (1, 0)


def test_a_worker_that_was_asked_for_the_card_alone_leaves_it(locked):
    workers = Workers([WITHIN_IT])
    measurer = measurer_of(workers)
    too_large = [measurer.measure("t.py::t", "t.py", Budget(gpu="H200")) for _ in range(2)]

    assert [type(found) for found in too_large] == [NotMeasured, NotMeasured]
    assert measurer.measure("t.py::t", "t.py", Budget(gib=10)) == WITHIN_IT
    assert workers.closed == 1


def test_host_memory_alone_is_not_measured(locked):
    found = measurer_of(Workers([])).measure("t.py::t", "t.py", Budget(host_gib=10))

    assert found == NotMeasured("its budget is of host memory alone")
    assert locked == []


# Several GPUs


class Ranks:
    """Stands for the ranks of a test: what they are started for, and one answer for all of them."""

    def __init__(self, answer):
        self.answer = answer
        self.orders = []

    def __call__(self, order, request):
        self.orders.append((order, request))
        return self.answer


@pytest.fixture
def ranks(monkeypatch):
    found = Ranks({"outcome": "error", "reason": "rank 1 of 2: it left", "reports": [], "failed_rank": 1})
    monkeypatch.setattr(measure, "measure_ranks", found)
    return found


TWO = {**H100, "count": 2}


def test_several_gpus_are_all_taken(locked, ranks):
    environment = {"CUDA_VISIBLE_DEVICES": "3,1,0"}
    budget = Budget(gib=10, gpus=2, host_gib=5)
    found = measurer_of(Workers([], TWO), environment).measure("t.py::t", "t.py", budget)

    assert found.verdict == Verdict(ERROR, "rank 1 of 2: it left", 1)
    assert locked == [["3"], ["3", "1"]]
    ((order, request),) = ranks.orders
    assert (order.gpus, order.device) == (2, "a:stand_in")
    assert order.backend == "cpu:gloo,cuda:nccl"
    assert (request["key"], request["metric"], request["snapshot"]) == ("t.py::t", "allocated", None)


def test_more_gpus_than_there_are_start_nothing(locked, ranks):
    found = measurer_of(Workers([], TWO)).measure("t.py::t", "t.py", Budget(gib=10, gpus=3))

    assert found == NotMeasured("2 CUDA devices, and gpus=3")
    assert ranks.orders == []
    assert locked == [["0"]]
