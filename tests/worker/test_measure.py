"""Which card a budget is measured on, beside whom, and why it is not, in words."""

from contextlib import contextmanager

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import ERROR, OVER, WITHIN, Verdict
from pytest_membudget.hardware.gpus import find_gpu, load_gpus
from pytest_membudget.worker.client import measure
from pytest_membudget.worker.client.estimator import Estimate
from pytest_membudget.worker.client.measure import Measurer, NotMeasured, _need_bytes, _own_device, _unfit
from pytest_membudget.worker.client.order import Order

GIB = 2**30
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


# How much of a card a test needs


def test_a_test_needs_its_limit_and_the_cards_context():
    assert _need_bytes(Budget(gib=10), H100) == 10 * GIB + find_gpu("H100-80GB").context_bytes


def test_a_card_that_is_in_no_catalogue_is_taken_to_need_the_largest_context():
    largest = max(gpu.context_bytes for gpu in load_gpus().values())
    assert _need_bytes(Budget(gib=10), {"count": 1, "name": "Another"}) == 10 * GIB + largest
    assert _need_bytes(Budget(gib=10), None) == 10 * GIB + largest


def test_without_gib_it_needs_all_that_the_named_card_has():
    assert _need_bytes(Budget(gpu="H100-80GB"), H100) == find_gpu("H100-80GB").total_bytes


@pytest.mark.parametrize(
    "budget",
    [Budget(components={"activations": 1}), Budget(gib=1, metric="reserved"), Budget(gib=1, metric="device")],
)
def test_a_test_without_a_figure_and_one_whose_figure_others_change_have_it_alone(budget):
    assert _need_bytes(budget, H100) is None


# Who measures beside whom


class Workers:
    """Stands for the workers of a session: each estimate that is asked for is the next of ``estimates``."""

    def __init__(self, estimates, card=H100):
        self.estimates = list(estimates)
        self.card = card

    def card_for(self, file):
        return self.card

    def estimate(self, key, file, budget):
        return self.estimates.pop(0)


@pytest.fixture
def turns(monkeypatch):
    """The turns that are taken, instead of taking them."""
    taken = []

    def noting(kind):
        @contextmanager
        def turn(*args):
            taken.append((kind, *args))
            yield

        return turn

    for name in ("looking_turn", "shared_turn", "whole_turn"):
        monkeypatch.setattr(measure, name, noting(name.partition("_")[0]))
    return taken


def measurer_of(workers, environment=None):
    measurer = Measurer(ORDER, environment or {}, device="a:stand_in")
    measurer._estimator = workers
    return measurer


def within(**more):
    return Estimate(Verdict(WITHIN, "fine"), **more)


NEED = 10 * GIB + find_gpu("H100-80GB").context_bytes


def test_a_test_with_a_budget_takes_its_share_of_the_card(turns):
    found = measurer_of(Workers([within()])).measure("t.py::t", "t.py", Budget(gib=10))

    assert found == within()
    assert turns == [("looking", "0"), ("shared", "0", NEED, H100["total_bytes"])]


def test_the_card_is_asked_for_once_a_session(turns):
    measurer = measurer_of(Workers([within(), within()]))
    for _ in range(2):
        measurer.measure("t.py::t", "t.py", Budget(gib=10))

    assert [kind for kind, *_ in turns] == ["looking", "shared", "shared"]


@pytest.mark.parametrize(
    "beside",
    [
        Estimate(Verdict(ERROR, "RuntimeError: CUBLAS_STATUS_ALLOC_FAILED")),
        Estimate(Verdict(OVER, "out of memory"), ran_short=True),
        within(ran_short=True),
    ],
    ids=["error", "out of memory", "short"],
)
def test_who_did_not_get_what_it_asked_for_beside_others_is_measured_again_alone(turns, beside):
    alone = within(details="alone")
    found = measurer_of(Workers([beside, alone])).measure("t.py::t", "t.py", Budget(gib=10))

    assert found == alone
    assert turns[-1] == ("whole", ["0"])


def test_who_took_more_than_its_budget_is_over_and_not_measured_again(turns):
    over = Estimate(Verdict(OVER, "1 GiB over"))
    assert measurer_of(Workers([over])).measure("t.py::t", "t.py", Budget(gib=10)) == over


def test_who_has_the_card_alone_is_measured_once(turns):
    failed = Estimate(Verdict(ERROR, "ValueError"))
    found = measurer_of(Workers([failed])).measure("t.py::t", "t.py", Budget(gib=10, metric="device"))

    assert found == failed
    assert turns == [("looking", "0"), ("whole", ["0"])]


@pytest.mark.parametrize("gib", [80, 79.2])
def test_a_budget_that_the_card_only_just_has_takes_it_alone(turns, gib):
    measurer_of(Workers([within()])).measure("t.py::t", "t.py", Budget(gib=gib))

    assert turns[-1] == ("whole", ["0"])


def test_host_memory_alone_is_not_measured(turns):
    found = measurer_of(Workers([])).measure("t.py::t", "t.py", Budget(host_gib=10))

    assert found == NotMeasured("its budget is of host memory alone")
    assert turns == []


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


def test_several_gpus_are_all_taken(turns, ranks):
    environment = {"CUDA_VISIBLE_DEVICES": "3,1,0"}
    budget = Budget(gib=10, gpus=2, host_gib=5)
    found = measurer_of(Workers([], TWO), environment).measure("t.py::t", "t.py", budget)

    assert found.verdict == Verdict(ERROR, "rank 1 of 2: it left", 1)
    assert turns == [("looking", "3"), ("whole", ["3", "1"])]
    ((order, request),) = ranks.orders
    assert (order.gpus, order.device, order.joined) == (2, "a:stand_in", None)
    assert order.backend == "cpu:gloo,cuda:nccl"
    assert (request["key"], request["metric"], request["snapshot"]) == ("t.py::t", "allocated", None)


def test_more_gpus_than_there_are_start_nothing(turns, ranks):
    found = measurer_of(Workers([], TWO)).measure("t.py::t", "t.py", Budget(gib=10, gpus=3))

    assert found == NotMeasured("2 CUDA devices, and gpus=3")
    assert ranks.orders == []


def launched(local_rank, **more):
    place = {"RANK": str(local_rank), "LOCAL_RANK": str(local_rank), "WORLD_SIZE": "4"}
    return {**place, "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", **more}


def test_a_launchers_session_joins_it_and_waits_for_no_turn(turns, ranks):
    # one GPU is shown to it: the others are the other sessions'
    measurer_of(Workers([], H100), launched(2)).measure("t.py::t", "t.py", Budget(gib=10, gpus=4))

    ((order, _),) = ranks.orders
    assert (order.joined.rank, order.joined.world_size) == (2, 4)
    assert turns == [("looking", "2"), ("whole", [])]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"MASTER_PORT": ""}, "not MASTER_PORT, where the ranks meet"),
        ({"PYTEST_XDIST_WORKER": "gw0"}, "pytest-xdist does not: leave -n out"),
    ],
)
def test_a_launcher_that_cannot_be_joined_is_an_error(turns, ranks, more, said):
    found = measurer_of(Workers([]), launched(0, **more)).measure("t.py::t", "t.py", Budget(gib=1, gpus=4))

    assert found.verdict.name == ERROR
    assert said in found.verdict.reason
    assert ranks.orders == []


def test_a_launcher_does_not_concern_a_test_on_one_gpu(turns):
    broken = launched(1, MASTER_PORT="")
    measurer = measurer_of(Workers([within()]), broken)

    assert measurer.measure("t.py::t", "t.py", Budget(gib=10)) == within()
    assert turns == [("looking", "1"), ("shared", "1", NEED, H100["total_bytes"])]
    assert measurer._order.visible == "1"


@pytest.mark.parametrize(
    ("environment", "device"),
    [
        ({}, "0"),
        ({"CUDA_VISIBLE_DEVICES": "5,3"}, "5"),
        (launched(2), "2"),
        (launched(1, CUDA_VISIBLE_DEVICES="5,3"), "3"),
        (launched(3, CUDA_VISIBLE_DEVICES="6"), "6"),
    ],
)
def test_one_gpu_is_that_of_the_local_rank(environment, device):
    assert _own_device(environment) == (device, None)


def test_a_local_rank_without_a_gpu_is_told(turns):
    environment = launched(3, CUDA_VISIBLE_DEVICES="5,3")
    found = measurer_of(Workers([]), environment).measure("t.py::t", "t.py", Budget(gib=10))

    assert found == NotMeasured("no GPU for local rank 3: CUDA_VISIBLE_DEVICES='5,3' shows 2")


def test_without_a_launcher_the_workers_see_what_the_session_sees():
    assert Measurer(ORDER, {}, device="a:stand_in")._order.visible is None
