"""What a worker is asked for one test, and what its answer makes of the test."""

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import ERROR, OVER, SKIPPED, WITHIN
from pytest_membudget.components import COMPONENTS
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.memory_report import MemoryReport, PeakBytes
from pytest_membudget.worker.client import estimator as estimate
from pytest_membudget.worker.client.estimator import capacity_of, read_answer, request_for
from pytest_membudget.worker.client.order import Order

GIB = 1_073_741_824


def report(gib, rank=0):
    size = int(gib * GIB)
    components = {**dict.fromkeys(COMPONENTS, 0), "temporaries": size}
    return MemoryReport("traced", "allocated", PeakBytes(size, size, size, size), components, rank=rank)


def traced(*reports):
    return {"outcome": "traced", "reports": [one.to_json() for one in reports]}


def test_a_figure_is_held_to_the_budget():
    assert read_answer(Budget(gib=2), traced(report(1))).verdict.name == WITHIN
    assert read_answer(Budget(gib=2), traced(report(3))).verdict.name == OVER


def test_ranks_that_the_budget_does_not_name_neither_count_nor_are_told():
    answer = traced(report(3, rank=0), report(1, rank=1), report(3, rank=2))

    found = read_answer(Budget(gib=2, gpus=3, ranks=[1]), answer)

    assert found.verdict.name == WITHIN
    assert [one.rank for one in found.reports] == [1]


def test_any_rank_counts_where_none_is_named():
    found = read_answer(Budget(gib=2, gpus=2), traced(report(1, rank=0), report(3, rank=1)))

    assert (found.verdict.name, found.verdict.rank) == (OVER, 1)


@pytest.mark.parametrize("budget", [Budget(gib=2), Budget(gpu="RTX-4090")])
def test_who_runs_out_of_memory_is_over_with_operator_and_place(budget):
    answer = {"outcome": "out_of_memory", "reason": "aten::mm asked for 4.00 GiB", "where": "test_a.py:7"}

    found = read_answer(budget, answer)

    assert found.verdict.name == OVER
    assert found.verdict.reason.endswith("aten::mm asked for 4.00 GiB, at test_a.py:7")


def test_a_body_that_raised_is_an_error_with_its_details():
    answer = {"outcome": "error", "reason": "ValueError: no\nsecond line", "details": "more", "raised": True}

    found = read_answer(Budget(gib=2), answer)

    assert (found.verdict.name, found.verdict.reason) == (ERROR, "ValueError: no")
    assert (found.details, found.raised) == ("second line\nmore", True)


def test_a_skip_on_the_device_is_no_figure():
    found = read_answer(Budget(gib=2), {"outcome": "skipped", "reason": "too slow"})

    assert (found.verdict.name, found.verdict.reason) == (SKIPPED, "skipped on the virtual device: too slow")


def test_an_answer_without_a_report_is_an_error():
    assert read_answer(Budget(gib=2), {"outcome": "traced"}).verdict.name == ERROR


# What a card can hold


def test_a_card_holds_all_of_its_memory_with_the_context_in_it_and_less_without():
    card = find_gpu("H100-80GB")

    assert capacity_of(Budget(gpu="H100-80GB", metric="device")) == card.total_bytes
    assert capacity_of(Budget(gpu="H100-80GB")) == card.total_bytes - card.context_bytes
    assert capacity_of(Budget(gpu="H100-80GB", metric="reserved")) == card.total_bytes - card.context_bytes


def test_without_a_card_there_is_no_capacity():
    assert capacity_of(Budget(gib=2)) is None


# What a worker is asked for


def test_a_worker_is_asked_for_the_budgets_card_and_metric():
    asked = request_for("a::b", "/a.py", Budget(gpu="RTX-4090", metric="device"), "H100-80GB", "/s.pickle")

    assert (asked["gpu"], asked["limited"], asked["metric"]) == ("RTX-4090", True, "device")
    assert (asked["key"], asked["file"], asked["snapshot"]) == ("a::b", "/a.py", "/s.pickle")


def test_the_card_of_a_budget_that_names_none_limits_nothing():
    asked = request_for("a::b", "/a.py", Budget(gib=2), "H100-80GB")

    assert (asked["gpu"], asked["limited"], asked["snapshot"]) == ("H100-80GB", False, None)


# Which worker is asked


@pytest.fixture
def workers(monkeypatch):
    """The files that workers were started for; ``held`` is what the next ones hold since their imports."""
    started = []

    class Worker:
        is_spent = False
        held = 0

        def __init__(self, order):
            started.append(list(order.files))
            self.imported_bytes = Worker.held

        def ask(self, request, *_):
            return traced(report(1))

        def has(self, request):
            return False

        def close(self):
            pass

    monkeypatch.setattr(estimate, "Worker", Worker)
    return started, Worker


def ask_for(*files):
    order = Order(args=[], dir="/", files=list(files), gpu="H100-80GB", timeout=10.0)
    estimator = estimate.Estimator(order)
    return [estimator.estimate(f"{file}::test", file, Budget(gib=2)) for file in files]


def test_one_worker_serves_all_files(workers):
    started, _ = workers
    ask_for("a.py", "b.py")

    assert started == [["a.py", "b.py"]]


def test_where_imports_hold_device_memory_each_file_has_a_worker_of_its_own(workers):
    started, worker = workers
    worker.held = 1
    ask_for("a.py", "b.py")

    assert started == [["a.py", "b.py"], ["a.py"], ["b.py"]]


def test_a_worker_that_is_lost_gives_an_error_with_its_last_words(monkeypatch):
    def dies(estimator, request):
        raise WorkerFailure("the worker was killed\nits last words")

    monkeypatch.setattr(estimate.Estimator, "_ask_worker", dies)
    [found] = ask_for("a.py")

    assert (found.verdict.name, found.verdict.reason) == (ERROR, "the worker was killed")
    assert found.details == "its last words"
