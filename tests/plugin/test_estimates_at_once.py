"""Tests that are estimated beside each other: the same rows, in the same order, as one after the other."""

import json
import os

import pytest

BODIES = """
    import os
    import signal
    import time
    from pathlib import Path

    import pytest
    import torch
    from holding import hold

    BESIDE = Path(__file__).parent / "beside"

    @pytest.mark.mem_budget(gib=1)
    def test_slow(tmp_path):
        kept = hold(0.25)
        (tmp_path / "own").touch()
        time.sleep(1)
        assert (tmp_path / "own").exists()

    @pytest.mark.mem_budget(gib=1)
    @pytest.mark.parametrize("sixteenth", [1, 2, 3, 17])
    def test_each(sixteenth, tmp_path):
        kept = hold(sixteenth / 16)
        assert not list(tmp_path.iterdir())

    @pytest.mark.mem_budget(gib=1)
    def test_is_killed():
        kept = hold(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    @pytest.mark.mem_budget(gib=1)
    def test_ends_the_worker():
        kept = hold(0.5)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(9)

    @pytest.mark.mem_budget(gib=1)
    def test_fails():
        kept = hold(0.5)
        raise ValueError("always")

    @pytest.mark.mem_budget(gib=1)
    def test_wants_to_be_alone():
        kept = hold(0.5)
        try:
            os.mkdir(BESIDE)
        except FileExistsError:
            pytest.skip("another is here")
        time.sleep(0.5)
        os.rmdir(BESIDE)

    @pytest.mark.mem_budget(gib=1)
    def test_wants_to_be_alone_too():
        test_wants_to_be_alone()

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_of_two_ranks():
        kept = hold(0.5)
        if torch.distributed.get_rank() == 1:
            more = hold(0.25)

    @pytest.mark.mem_budget(gib=1)
    def test_last():
        kept = hold(0.75)
    """


@pytest.fixture(scope="module")
def alone(session_of):
    """As of one of so many workers of pytest-xdist: it has one processor."""
    return session_of({"test_bodies.py": BODIES}, "--membudget", env={"PYTEST_XDIST_WORKER_COUNT": "9999"})


@pytest.fixture(scope="module")
def beside(session_of):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor: nothing is estimated beside another test")
    return session_of({"test_bodies.py": BODIES}, "--membudget")


def plain(run):
    """The rows without what no two runs have in common: seconds, and the folder in tracebacks."""
    text = json.dumps(run.report["tests"]).replace(str(run.folder), "FOLDER")
    return [without_seconds(row) for row in json.loads(text)]


def without_seconds(value):
    if isinstance(value, dict):
        return {name: without_seconds(child) for name, child in value.items() if name != "seconds"}
    return [without_seconds(child) for child in value] if isinstance(value, list) else value


def test_rows_and_their_order_are_the_same(alone, beside):
    assert plain(beside) == plain(alone)
    assert beside.outcomes == alone.outcomes
    assert list(beside.outcomes) == list(alone.outcomes)


def test_each_has_what_it_has_alone(beside):
    failed = {name for name, outcome in beside.outcomes.items() if outcome == "failed"}

    assert failed == {"test_each[17]", "test_is_killed", "test_ends_the_worker", "test_fails"}
    assert beside.rows["test_each[17]"]["verdict"] == "over"
    assert "signal 9 (SIGKILL) before its test did" in beside.text("test_is_killed")
    assert "the worker was ended by signal 9 (SIGKILL)" in beside.text("test_ends_the_worker")
    assert beside.allocated("test_last") == 0.75 * 2**30
    assert beside.rows["test_of_two_ranks"]["estimates"][1]["peak"]["allocated"] == 0.75 * 2**30
