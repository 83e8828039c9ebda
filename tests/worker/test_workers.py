"""Which worker is asked, what is sent ahead of time, and what becomes of it when the worker is lost."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marked_test import MarkedTest
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.worker.client.order import Order
from pytest_membudget.worker.client.tracing import TracingEstimator
from tests.worker.scripted_worker import ScriptedWorkers, traced


def estimates(workers, tests, processes=2):
    """The estimates of ``tests``, (key, file, gpus), asked in their order."""
    files = list(dict.fromkeys(file for _, file, _ in tests))
    order = Order(args=(), dir="/", files=files, gpu="H100-80GB", timeout=1.0, processes=processes)
    estimator = TracingEstimator(order, start=workers)
    marked = [MarkedTest(key, key, file, file, 1, Budget(gib=1, gpus=gpus)) for key, file, gpus in tests]
    for test in marked:
        estimator.expect(test)
    found = [estimator.estimate(test) for test in marked]
    estimator.close()
    assert all(worker.is_closed for worker in workers.workers)
    return found


def verdicts(workers, tests, processes=2):
    return [estimate.verdict for estimate in estimates(workers, tests, processes)]


def named(*keys, file="t.py"):
    return [(key, file, 1) for key in keys]


def last(request):
    return replace(traced(request), is_last=True)


OF_TWO_FILES = [*named(*"ab", file="t.py"), *named(*"cd", file="u.py")]
#: Workers, the tests, how many run at once, and the keys and ranks that each worker is sent.
SENT = {
    "each is sent once and in order": ({"holds": 3}, named(*"abcdef"), 2, [[(key, 0) for key in "abcdef"]]),
    "one at a time nothing is sent ahead": (
        {"killers": "b"}, named(*"abc"), 1, [[("a", 0), ("b", 0)], [("c", 0)]]
    ),
    "ranks are asked ahead as soon as they are known": (
        {"holds": 3}, [("a", "t.py", 4), ("b", "t.py", 4)], 2,
        [[("a", 0), ("b", 0), ("a", 1), ("a", 3), ("b", 1), ("b", 3)]],
    ),
    "the last rank runs beside the first if nothing else waits": (
        {"holds": 2}, [("a", "t.py", 4)], 2, [[("a", 0), ("a", 3), ("a", 1)]]
    ),
    "where each file has its own worker no other files' tests are sent": (
        {"holds": 3, "imported_bytes": 512}, OF_TWO_FILES, 2, [[], [("a", 0), ("b", 0)], [("c", 0), ("d", 0)]]
    ),
    "a worker that has run its last test is replaced": (
        {"answer_to": last}, named(*"ab"), 1, [[("a", 0)], [("b", 0)]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SENT)
def test_what_each_worker_is_sent(name):
    script, tests, processes, sent = SENT[name]
    workers = ScriptedWorkers(**script)

    expected = ["error" if key in script.get("killers", "") else "within" for key, *_ in tests]
    assert verdicts(workers, tests, processes) == expected
    assert workers.sent == sent


def test_who_ends_a_worker_is_found_by_asking_each_of_those_that_ran_alone():
    workers = ScriptedWorkers(killers="b", holds=3)

    assert verdicts(workers, named(*"abcde")) == ["within", "error", "within", "within", "within"]
    first, second, *others = workers.sent
    assert [key for key, _ in first] == ["a", "b", "c"]
    assert [key for key, _ in second] == ["a", "b"]  # alone, one after the other
    assert [key for sent in others for key, _ in sent] == ["c", "d", "e"]


def test_what_a_test_read_of_the_unknown_is_varied_ahead_too():
    workers = ScriptedWorkers(lambda request: replace(traced(request), unknown=("data",)), holds=3)

    assert verdicts(workers, named(*"abcd")) == ["within"] * 4
    sent = [(request.key, request.variant) for request in workers.workers[0].sent]
    assert sent == [*((key, 0) for key in "abc"), ("a", 1), ("b", 1), ("c", 1), ("d", 0), ("d", 1)]


def test_both_other_ends_of_what_a_rank_read_are_sent_before_either_answers():
    workers, sent = ScriptedWorkers(holds=2), {}

    def answer(request):
        sent[request.rank, request.variant] = [(one.rank, one.variant) for one in workers.workers[0].sent]
        return replace(traced(request), unknown=("numbers",), last_read=f"t.py:{request.rank}")

    workers.answer_to = answer

    assert verdicts(workers, [("a", "t.py", 2)]) == ["within"]
    assert all((rank, 2) in sent[rank, 1] for rank in (0, 1))


def test_ranks_that_did_the_same_are_varied_each():
    """What one does in a branch that neither has taken yet is not known of the other."""
    workers = ScriptedWorkers(lambda request: replace(traced(request), unknown=("data",)), holds=2)

    assert verdicts(workers, [("a", "t.py", 4)]) == ["within"]
    sent = [(request.rank, request.variant) for request in workers.workers[0].sent]
    assert sorted(sent) == [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0), (3, 1)]


@pytest.mark.parametrize("holds", [1, 2])
def test_where_a_rank_had_to_run_in_full_the_next_are_not_asked_for_figures(holds):
    def answer(request):
        variant = request.variant
        return replace(traced(request), unknown=("data", "numbers"), allocations=f"those of {variant}")

    workers = ScriptedWorkers(answer, holds=holds)
    assert verdicts(workers, [("a", "t.py", 4)]) == ["within"]
    sent = workers.workers[0].sent
    assert [(one.rank, one.variant) for one in sent if one.figures_only] == [(0, 1), (0, 2), (0, 3)]
    in_full = [(one.rank, one.variant) for one in sent if not one.figures_only]
    assert sorted(in_full) == [(rank, variant) for rank in (0, 1, 3) for variant in range(4)]


@pytest.mark.parametrize(("rank", "told"), [(0, ["", '{"0": ""}']), (3, [""])])
def test_a_last_rank_that_may_need_what_the_first_sends_runs_again_with_it(rank, told):
    workers = ScriptedWorkers(
        lambda request: replace(traced(request), has_exchanged=request.rank == rank), holds=2
    )

    assert verdicts(workers, [("a", "t.py", 4)]) == ["within"]
    assert [request.received for request in workers.workers[0].sent if request.rank == 3] == told


# Which worker is asked


def test_one_worker_serves_all_files():
    workers = ScriptedWorkers()
    estimates(workers, [*named("a", file="a.py"), *named("b", file="b.py")], processes=1)

    assert workers.files == [["a.py", "b.py"]]


def test_each_number_of_cards_has_a_worker():
    """Modules may read it while they are imported. A machine has eight at most."""
    workers = ScriptedWorkers()
    tests = [("a", "t.py", 1), ("b", "t.py", 8), ("c", "t.py", 16), ("d", "t.py", 1)]
    estimates(workers, tests, processes=1)

    assert [{key for key, _ in sent} for sent in workers.sent] == [{"a", "d"}, {"b", "c"}]


def test_where_imports_hold_device_memory_each_file_has_a_worker_of_its_own():
    workers = ScriptedWorkers(imported_bytes=1)
    estimates(workers, [*named("a", file="a.py"), *named("b", file="b.py")], processes=1)

    assert workers.files == [["a.py", "b.py"], ["a.py"], ["b.py"]]


def test_a_worker_that_is_lost_gives_an_error_with_its_last_words():
    lost = WorkerFailure("the worker was killed\nits last words")
    [found] = estimates(ScriptedWorkers(lambda request: lost), named("a"))

    assert (found.verdict, found.reason) == ("error", "the worker was killed")
    assert found.details == "its last words"


def test_each_rank_has_a_worker_where_files_ask_for_it_and_other_tests_have_one_for_all():
    workers = ScriptedWorkers(asks_place=True, holds=3)

    tests = [("a", "t.py", 1), ("b", "t.py", 4), ("c", "t.py", 1)]
    assert verdicts(workers, tests) == ["within"] * 3
    assert workers.sent == [[("a", 0), ("c", 0)], [], [("b", 0)], [("b", 1)], [("b", 3)]]
    assert [(one.order.rank, one.order.world_size) for one in workers.workers[2:]] == [(0, 4), (1, 4), (3, 4)]


def test_a_rank_whose_worker_is_lost_has_no_figure_and_the_others_go_on():
    workers = ScriptedWorkers(asks_place=True, killers="b")

    assert verdicts(workers, [("b", "t.py", 4), ("c", "t.py", 1)]) == ["error", "within"]


def test_of_those_that_import_files_for_single_runs_only_few_are_kept():
    workers = ScriptedWorkers(asks_place=True)

    assert verdicts(workers, [("a", "t.py", gpus) for gpus in (16, 24, 16, 32)]) == ["within"] * 4
    assert len(workers.workers) == 1 + 3 * 3  # of three ranks each
    assert workers.open_at_once == 1 + 8
