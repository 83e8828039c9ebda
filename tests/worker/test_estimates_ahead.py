"""What is asked ahead of a worker that runs several tests, and what becomes of it when that one is lost."""

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.worker.client import estimator as estimate_module
from pytest_membudget.worker.client.estimator import Estimator
from pytest_membudget.worker.client.order import Order

REPORT = {
    "kind": "traced",
    "rank": 0,
    "metric": "allocated",
    "peak": dict.fromkeys(("allocated_bytes", "active_bytes", "reserved_bytes", "device_bytes"), 512),
    "components": {"parameters": 512},
    "holders": [],
    "host": None,
    "assumptions": [],
    "not_modelled": [],
    "seconds": 1.0,
    "timeline": None,
}


class Workers:
    """All workers of a test: what each was sent, with what it may have beside it."""

    def __init__(self, killers=(), holds=3):
        self.killers, self.holds = killers, holds
        self.sent = []
        self.imported_bytes = 0

    def __call__(self, order):
        return Worker(self, order)


class Worker:
    is_spent = False

    def __init__(self, workers, order):
        self.workers, self.order = workers, order
        self.imported_bytes = workers.imported_bytes
        self.pending, self.sent = [], []
        workers.sent.append(self.sent)

    def has(self, request):
        return request in self.pending

    def ask(self, request, following):
        self._take(request)
        while len(self.pending) < self.workers.holds and (more := following()) is not None:
            self._take(more)
        if any(pending["key"] in self.workers.killers for pending in self.pending):
            raise WorkerFailure("it is lost")
        self.pending.remove(request)
        rank = request.get("rank", 0)
        answer = {"outcome": "traced", "report": {**REPORT, "rank": rank}, "properties": []}
        return {**answer, "representatives": [0, 1, 3], "rank_assumption": ""}

    def _take(self, request):
        if request not in self.pending:
            self.pending.append(request)
            self.sent.append((request["key"], request.get("rank", 0)))

    def begun(self):
        return self.pending[:2]

    def unanswered(self):
        return list(self.pending)

    def answers_ahead(self):
        return []

    def close(self):
        pass


@pytest.fixture
def estimates(monkeypatch):
    """``estimates(workers, tests)``: verdicts of tests, (key, file, gpus), asked in their order."""

    def run(workers, tests, at_once=2):
        monkeypatch.setattr(estimate_module, "Worker", workers)
        files = list(dict.fromkeys(file for _, file, _ in tests))
        order = Order(args=(), dir="/", files=files, gpu="H100-80GB", timeout=1.0, at_once=at_once)
        estimator = Estimator(order)
        for key, file, gpus in tests:
            estimator.expect(key, file, Budget(gib=1, gpus=gpus))
        found = [estimator.estimate(key, file, Budget(gib=1, gpus=gpus)) for key, file, gpus in tests]
        estimator.close()
        return [estimate.verdict.name for estimate in found]

    return run


def named(*keys, file="t.py"):
    return [(key, file, 1) for key in keys]


def test_each_is_sent_once_and_in_order(estimates):
    workers = Workers()

    assert estimates(workers, named(*"abcdef")) == ["within"] * 6
    assert workers.sent == [[(key, 0) for key in "abcdef"]]


def test_one_at_a_time_nothing_is_sent_ahead(estimates):
    workers = Workers(killers="b")

    assert estimates(workers, named(*"abc"), at_once=1) == ["within", "error", "within"]
    assert workers.sent == [[("a", 0), ("b", 0)], [("c", 0)]]


def test_who_ends_a_worker_is_found_by_asking_each_of_those_that_ran_alone(estimates):
    workers = Workers(killers="b")

    assert estimates(workers, named(*"abcde")) == ["within", "error", "within", "within", "within"]
    first, second, *others = workers.sent
    assert [key for key, _ in first] == ["a", "b", "c"]
    assert [key for key, _ in second] == ["a", "b"]  # alone, one after the other
    assert [key for sent in others for key, _ in sent] == ["c", "d", "e"]


def test_ranks_are_asked_ahead_as_soon_as_they_are_known(estimates):
    workers = Workers()

    assert estimates(workers, [("a", "t.py", 8), ("b", "t.py", 1), ("c", "t.py", 1)]) == ["within"] * 3
    assert workers.sent == [[("a", 0), ("b", 0), ("c", 0), ("a", 1), ("a", 3)]]


def test_where_each_file_has_its_own_worker_no_other_files_tests_are_sent(estimates):
    workers = Workers()
    workers.imported_bytes = 512
    tests = [*named(*"ab", file="t.py"), *named(*"cd", file="u.py")]

    assert estimates(workers, tests) == ["within"] * 4
    assert workers.sent == [[], [("a", 0), ("b", 0)], [("c", 0), ("d", 0)]]
