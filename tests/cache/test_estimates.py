"""The cache as a session uses it, with workers that are not there."""

import zlib
from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marked_test import MarkedTest
from pytest_membudget.cache.estimates import EstimateCache
from pytest_membudget.cache.states import States
from pytest_membudget.cache.store import Store
from pytest_membudget.components import METRICS
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.answer import Answer, OtherRanks, Request
from pytest_membudget.units import GIB
from pytest_membudget.worker.client.order import Order
from pytest_membudget.worker.client.tracing import TracingEstimator

REPORT = MemoryReport(
    "traced", "allocated", dict.fromkeys(METRICS, 2 * GIB), {"parameters": 2 * GIB}, seconds=1.0
)
SEEN = {"paths": {}, "trouble": ""}
TRACED = Answer("traced", reports=(REPORT,), seen=SEEN)
REQUEST = Request("t.py::test", "t.py", "A100-40GB", False, "allocated")


class Worker:
    """Answers as it is told; knows how often it was asked."""

    asked = 0
    started = 0
    answers = TRACED
    imported_bytes = 0

    def __init__(self, order):
        assert order.observes
        self.pending, self.marked, self.asks_place = {}, {}, False
        type(self).started += 1

    @classmethod
    def estimated(cls, cache, budget, files=("t.py",)):
        """The estimate of a test in a session with ``cache``."""
        estimator = estimator_of(cache, cls, files)
        found = estimator.estimate(marked(budget))
        estimator.close()
        cache.close()
        return found

    def wait_until_ready(self):
        pass

    def send(self, request):
        type(self).asked += 1

    def receive(self, awaited):
        if self.answers is None:
            raise WorkerFailure("it is lost")
        return awaited, self.answers

    def has_room(self):
        return False

    def close(self):
        pass


def estimator_of(cache, start, files=("t.py",)):
    order = Order(args=(), dir="/project", files=files, gpu="A100-40GB", timeout=1)
    return TracingEstimator(order, lambda order: cache, start=start)


def marked(budget, name="test"):
    return MarkedTest(f"t.py::{name}", f"t.py::{name}", "t.py", "t.py", 1, budget)


@pytest.fixture
def worker():
    class Own(Worker):
        pass

    return Own


@pytest.fixture
def cache_of(tmp_path):
    """``cache_of(...)``: a new session's cache."""

    def make(facts=None, **more):
        store = Store(tmp_path / "kept")
        return EstimateCache(store, "/project", lambda states: facts or {"torch": "2.13"}, **more)

    return make


def test_a_kept_figure_is_held_to_another_budget_without_a_worker(cache_of, worker):
    first = worker.estimated(cache_of(), Budget(gib=3))
    second = worker.estimated(cache_of(), Budget(gib=1))

    assert worker.started == 1
    assert [found.verdict for found in (first, second)] == ["within", "over"]
    assert [found.cached for found in (first, second)] == [False, True]
    assert second.reason == "1.00 GiB over its budget of 1 GiB"


def test_budgets_of_components_share_a_figure_whose_further_runs_are_full(cache_of, worker):
    worker.estimated(cache_of(), Budget(gib=3))
    first = worker.estimated(cache_of(), Budget(components={"parameters": 1.5}))
    second = worker.estimated(cache_of(), Budget(components={"parameters": 0.5}))

    assert worker.started == 2
    assert [found.verdict for found in (first, second)] == ["over", "over"]
    assert [found.cached for found in (first, second)] == [False, True]


def test_trials_of_a_kept_estimate_are_kept_with_what_they_gave(cache_of, worker):
    class Halving(worker):
        def receive(self, awaited):
            size = GIB if awaited.change else 2 * GIB
            held = {"parameters": 512, "activations": size - 512}
            report = replace(REPORT, peak=dict.fromkeys(METRICS, size), components=held)
            return awaited, replace(TRACED, reports=(report,), changed="Block")

    found = []
    for _ in range(2):
        cache = cache_of()
        estimator = estimator_of(cache, Halving)
        estimate = estimator.estimate(marked(Budget(gib=1)))
        found.append(estimator.advise(marked(Budget(gib=1)), estimate.estimates[0], lambda name: None))
        estimator.close()
        cache.close()

    assert Halving.asked == 1 + 2
    assert found[0] == found[1]
    assert [*found[0].trials.values()] == [GIB, GIB]


@pytest.mark.parametrize(
    "budget",
    [Budget(gib=3, metric="reserved"), Budget(gib=3, gpu="A100-40GB"), Budget(gib=3, gpu="H100-80GB")],
    ids=["metric", "limited", "card"],
)
def test_another_request_is_another_estimate(cache_of, worker, budget):
    worker.estimated(cache_of(), Budget(gib=3))
    found = worker.estimated(cache_of(), budget)

    assert worker.asked == 2
    assert not found.cached


def test_another_session_is_another_estimate(cache_of, worker):
    worker.estimated(cache_of(), Budget(gib=3))
    worker.estimated(cache_of({"torch": "2.14"}), Budget(gib=3))

    assert worker.asked == 2


def test_each_rank_is_kept_for_itself(cache_of, worker):
    worker.answers = replace(TRACED, other_ranks=OtherRanks((1,)))
    worker.estimated(cache_of(), Budget(gib=3, gpus=4))
    found = worker.estimated(cache_of(), Budget(gib=3, gpus=4))
    assert worker.asked == 2
    assert found.cached

    other = worker.estimated(cache_of(), Budget(gib=3, gpus=8))
    assert worker.asked == 4
    assert not other.cached


@pytest.mark.parametrize(
    "answers",
    [
        Answer("error", "as ever", seen=SEEN),
        Answer("skipped", "as ever", seen=SEEN),
        replace(TRACED, seen={**SEEN, "trouble": "socket.bind"}),
        replace(TRACED, seen=None),
        None,
    ],
    ids=["error", "skipped", "trouble", "not seen", "lost"],
)
def test_what_is_no_sure_figure_is_asked_for_again(cache_of, worker, answers):
    worker.answers = answers
    worker.estimated(cache_of(), Budget(gib=3))
    worker.estimated(cache_of(), Budget(gib=3))

    assert worker.asked == 2


def test_files_with_workers_of_their_own_are_not_kept(cache_of, worker):
    worker.imported_bytes = 1
    for _ in range(2):
        worker.estimated(cache_of(), Budget(gib=3), files=("t.py", "u.py"))

    assert worker.asked == 2


def test_one_that_does_not_find_keeps(cache_of, worker):
    worker.estimated(cache_of(), Budget(gib=3))
    worker.estimated(cache_of(finds=False), Budget(gib=3))
    assert worker.asked == 2

    assert worker.estimated(cache_of(), Budget(gib=3)).cached


def test_no_space_is_reported_once_and_fails_nothing(cache_of, worker, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr(Store, "keep", full)
    cache = cache_of()

    assert worker.estimated(cache, Budget(gib=3)).verdict == "within"
    assert cache.trouble == f"No space left on device: {cache._store.folder}"


def test_a_snapshot_is_made_anew(cache_of, tmp_path):
    request = replace(REQUEST, snapshot=str(tmp_path / "test.pickle"))
    cache_of().keep(request, replace(TRACED, has_snapshot=True))

    assert cache_of().find(request) is None
    assert not cache_of().find(REQUEST).has_snapshot


def test_another_variable_is_another_estimate_and_one_that_the_session_sets_keeps_none(cache_of, monkeypatch):
    cache = cache_of()
    assert cache.find(REQUEST) is None
    monkeypatch.setenv("SIZE", "1")
    cache.keep(REQUEST, TRACED)
    assert cache.not_cached == {"t.py::test": "the session has changed its environment variables"}
    assert cache_of().find(REQUEST) is None

    cache_of().keep(REQUEST, TRACED)
    assert cache_of().find(REQUEST) is not None
    monkeypatch.setenv("SIZE", "2")
    assert cache_of().find(REQUEST) is None


def test_no_value_of_a_variable_is_kept(cache_of, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "a-secret")
    cache_of().keep(REQUEST, TRACED)

    texts = [zlib.decompress(path.read_bytes()) for path in tmp_path.rglob("*.estimate")]
    assert texts
    assert not any(b"a-secret" in text for text in texts)


def test_another_checkout_with_the_same_content_finds_it(tmp_path):
    def checkout(name, text):
        path = tmp_path / name / "data.txt"
        path.parent.mkdir()
        path.write_text(text)
        paths = {f"state:{path}": States().of("state", str(path))}
        request = replace(REQUEST, key=f"{path.parent}/t.py::test", file=f"{path.parent}/t.py")
        cache = EstimateCache(Store(tmp_path / "kept"), str(path.parent), lambda states: {})
        return cache, request, replace(TRACED, seen={**SEEN, "paths": paths})

    cache, request, answer = checkout("first", "1")
    cache.keep(request, answer)

    same, same_request, _ = checkout("second", "1")
    other, other_request, _ = checkout("third", "2")
    assert same.find(same_request) is not None
    assert other.find(other_request) is None


def test_where_no_worker_can_start_what_is_kept_is_still_there(cache_of, worker):
    worker.estimated(cache_of(), Budget(gib=3))

    def refuse(order):
        raise WorkerFailure("there is no worker")

    estimator = estimator_of(cache_of(), refuse)
    other = marked(Budget(gib=3), "other")
    assert estimator.estimate(other).reason == "there is no worker"
    assert not estimator.estimate(other).cached
    assert estimator.estimate(marked(Budget(gib=3))).verdict == "within"
    assert estimator.estimate(other).reason == "there is no worker"


def test_a_file_above_the_checkout_is_looked_for_above_another(tmp_path):
    """The paths above are the same here, and yet another checkout may have looked for others."""

    def checkout(name, looked_for):
        root = tmp_path / name
        root.mkdir()
        paths = {f"state:{path}": States().of("state", str(path)) for path in looked_for}
        answer = replace(TRACED, seen={**SEEN, "paths": paths})
        request = replace(REQUEST, key=f"{root}/t.py::test", file=f"{root}/t.py")
        return EstimateCache(Store(tmp_path / "kept"), str(root), lambda _: {}), request, answer

    cache, request, answer = checkout("first", [tmp_path, tmp_path / "first" / "t.py"])
    cache.keep(request, answer)
    other, other_request, bound = checkout("second", [tmp_path / ".env"])
    assert other.find(other_request) is not None

    cache.keep(replace(request, gpu="H100-80GB"), bound)
    assert cache.find(replace(request, gpu="H100-80GB")) is not None
    assert other.find(replace(other_request, gpu="H100-80GB")) is None
