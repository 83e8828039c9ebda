"""Which rank failed first, told from what its process has left and whether it is there."""

import signal
import subprocess

import pytest

from pytest_membudget.worker.ranks.rank_answers import DIED, ENDED, HUNG, RAISED
from pytest_membudget.worker.ranks.rank_files import RankFiles
from pytest_membudget.worker.ranks.rank_watch import RankWatch


@pytest.fixture
def start(tmp_path):
    """``start(rank, *command)`` is a rank that has begun; with ``waited`` it has ended."""
    processes = []

    def run(rank, *command, waited=False):
        process = subprocess.Popen(command, start_new_session=True)
        processes.append(process)
        files = RankFiles(tmp_path, rank)
        files.path("out").touch()
        files.write("pid", process.pid)
        files.begin()
        if waited:
            process.wait()
        return files

    yield run
    for process in processes:
        process.kill()
        process.wait()


def error(failed_at):
    return {"outcome": "error", "reason": "it raised", "failed_at": failed_at}


def failures(ends):
    return [one.failure for one in ends]


def test_while_all_run_none_has_failed(tmp_path, start):
    start(0, "sleep", "60")
    start(1, "sleep", "60")

    watch = RankWatch(tmp_path, 2, 60.0)

    assert (watch.look(), watch.is_done()) == (False, False)


def test_whoever_died_is_named_and_not_the_one_that_raised_because_of_it(tmp_path, start):
    start(0, "sleep", "60").write("json", error(1.0))
    start(1, "false", waited=True)
    watch = RankWatch(tmp_path, 2, 60.0)

    assert watch.look()
    assert watch.failures == {1: DIED}
    assert watch.ends({1: 1})[1].reason == "its process left with status 1 before its test did"


def test_of_two_that_raised_the_earlier_comes_first(tmp_path, start):
    start(0, "sleep", "60").write("json", error(2.0))
    start(1, "sleep", "60").write("json", error(1.0))
    watch = RankWatch(tmp_path, 2, 60.0)

    assert watch.look()
    ends = watch.ends({})
    assert failures(ends) == [RAISED, RAISED]
    assert [one.number for one in ends] == [1, 0]


def test_a_rank_that_was_ended_is_not_the_first_that_failed(tmp_path, start):
    start(0, "false", waited=True)
    start(1, "false", waited=True)
    watch = RankWatch(tmp_path, 2, 60.0)
    watch.look()

    assert failures(watch.ends({0: -signal.SIGTERM, 1: 1})) == [ENDED, DIED]


def test_a_rank_that_died_before_it_had_said_anything_is_found_by_its_exit_code(tmp_path, start):
    start(0, "false", waited=True)
    watch = RankWatch(tmp_path, 2, 60.0)
    watch.look()

    ends = watch.ends({0: -signal.SIGTERM, 1: 127})

    assert failures(ends) == [ENDED, DIED]
    assert ends[1].reason == "its process left with status 127 before its test did"


def test_a_rank_that_has_answered_and_left_has_not_failed(tmp_path, start):
    for rank in range(2):
        start(rank, "true", waited=True).write("json", {"outcome": "traced", "report": {}})
    watch = RankWatch(tmp_path, 2, 60.0)

    assert (watch.look(), watch.is_done()) == (False, True)
    assert failures(watch.ends({})) == [None, None]


def test_only_those_that_have_not_answered_hang(tmp_path, start):
    start(0, "true", waited=True).write("json", {"outcome": "traced", "report": {}})
    # it ends by the signal that asks where it is: what it says has another test
    start(1, "sleep", "60")
    watch = RankWatch(tmp_path, 2, 0.0)
    RankFiles(tmp_path, 1).path("where").touch()
    watch.look()

    assert watch.failures == {1: HUNG}


def test_the_last_lines_are_those_of_the_test(tmp_path, start):
    files = RankFiles(tmp_path, 0)
    files.path("out").write_text("the session's\n")
    files.begin()
    with files.path("out").open("a") as output:
        output.writelines(f"line {n}\n" for n in range(20))

    assert files.last_lines().splitlines() == [f"line {n}" for n in range(8, 20)]


def test_a_process_that_python_could_not_start_has_its_words(tmp_path):
    log = tmp_path / "logs" / "run_x" / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("ModuleNotFoundError: No module named 'pytest_membudget'\n")

    assert RankFiles(tmp_path, 1).last_lines() == "ModuleNotFoundError: No module named 'pytest_membudget'"
