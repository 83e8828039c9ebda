"""Children of a worker beside each other: which run when, and whose answers count."""

import os
import signal
import threading
import time
from contextlib import closing

import pytest

from pytest_membudget.results.answer import TRACED, Answer, Request
from pytest_membudget.worker.protocol import RESULT, Channel, Message, Task
from pytest_membudget.worker.server import concurrent_runs
from pytest_membudget.worker.server.child_process import Child, SessionGone
from pytest_membudget.worker.server.concurrent_runs import ConcurrentRuns
from pytest_membudget.worker.server.made_files import FolderLock


class Served:
    """An ``ConcurrentRuns`` at one end of two pipes; ``bodies`` by key are what its children run."""

    def __init__(self, bodies, most=2, free=float("inf"), timeout=20, ended=lambda key: None, apart=()):
        own_read, their_write = os.pipe()
        their_read, own_write = os.pipe()
        self.session = Channel(own_read, own_write)
        self.channel = Channel(their_read, their_write)
        self.started, self.ended, self.alone = [], [], []

        def start(task):
            self.started.append(task.request.key)
            body = bodies[task.request.key]
            return body if isinstance(body, Answer) else Child(body, timeout, self.session)

        def end(task, is_alone):
            self.alone.append(is_alone)
            self.ended.append(task.request.key)
            ended(task.request.key)

        self.served = ConcurrentRuns(self.channel, most, start, end, lambda: free)
        self.apart = apart

    def run(self, keys, before=lambda: None, answers=None):
        """What it says of ``keys``, all asked at once: each with its answer, in the order of their ends.

        They are read when ``before`` has ended; ``answers``: how many come.
        """
        for number, key in enumerate(keys):
            self.session.send(Task(number, Request(key, "t.py", "L4", False, "allocated")).to_json())
        said = {}

        def listen():
            before()
            while len(said) < (answers or len(keys)):
                message = Message.from_json(self.session.receive(30))
                if message.event == RESULT:
                    said[keys[message.number]] = message.answer
            self.session.close()

        thread = threading.Thread(target=listen)
        thread.start()
        with closing(FolderLock(os.curdir)) as lock:
            self.served.serve(lambda task: task.request.key in self.apart, lock)
        thread.join()
        return said


def traced(seconds=0.0):
    def body():
        time.sleep(seconds)
        return Answer(TRACED)

    return body


def comes(path):
    """Wait for it, as long as the time limit of a child lets it."""
    while not path.exists():
        time.sleep(0.01)


def test_two_run_at_once_and_answer_when_they_end(tmp_path):
    def slow():
        comes(tmp_path / "third")
        return Answer(TRACED)

    bodies = {"slow": slow, "quick": traced(), "third": traced()}
    served = Served(bodies, ended=lambda key: (tmp_path / key).touch())

    said = served.run(["slow", "quick", "third"])

    assert [*said] == ["quick", "third", "slow"]
    assert served.started == ["slow", "quick", "third"]
    assert served.ended == ["quick", "third", "slow"]
    assert served.alone == [False, False, True]
    assert {one.outcome for one in said.values()} == {TRACED}


@pytest.mark.parametrize(
    "limits", [{"most": 1}, {"free": concurrent_runs.ROOM_BYTES}], ids=["most", "memory"]
)
def test_one_at_a_time_answers_in_order(limits):
    said = Served({"slow": traced(0.3), "quick": traced()}, **limits).run(["slow", "quick"])

    assert [*said] == ["slow", "quick"]


def test_one_that_is_to_run_alone_waits_for_the_others_and_for_other_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def alone():
        return Answer(TRACED if (tmp_path / "left").exists() else "error")

    def leaves():
        (tmp_path / "left").touch()
        leave.set()

    def ended(_key):
        if len(served.ended) == 2:  # the other process goes on for a while when both have ended
            threading.Timer(0.3, leaves).start()

    leave = threading.Event()
    with closing(FolderLock(tmp_path)) as others:
        assert others.take(alone=False)
        threading.Thread(target=lambda: (leave.wait(), others.release())).start()
        bodies = {"alone": alone, "slow": traced(0.2), "quick": traced()}
        served = Served(bodies, ended=ended, apart=("alone",))
        said = served.run(["alone", "slow", "quick"])

    assert served.started == ["slow", "quick", "alone"]
    assert served.alone == [False, False, True]  # neither while the other process runs
    assert {one.outcome for one in said.values()} == {TRACED}


def has_turn(folder, served, ended):
    """Whether another process has ``folder`` alone, soon after so many have ended."""
    until = time.monotonic() + 20
    with closing(FolderLock(folder)) as others:
        while time.monotonic() < until:
            time.sleep(0.01)
            if len(served.ended) >= ended and others.take(alone=True):
                return True
    return False


def test_while_nobody_reads_its_answers_other_processes_have_their_turn(tmp_path, monkeypatch):
    """A session waits for another worker, which waits for the folder."""
    monkeypatch.chdir(tmp_path)

    def long():
        return Answer("error", "a" * 2**20)

    had_turn = []
    served = Served({"one": long, "two": long, "three": long}, most=1)
    said = served.run(["one", "two", "three"], lambda: had_turn.append(has_turn(tmp_path, served, 3)))

    assert had_turn == [True]
    assert {len(one.reason) for one in said.values()} == {2**20}


def test_so_they_have_when_an_answer_ends_the_process_beside_a_test_that_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    had_turn = []
    last = Answer(TRACED, "a" * 2**20, is_last=True)
    served = Served({"slow": traced(60), "last": lambda: last}, timeout=90)
    said = served.run(["slow", "last"], lambda: had_turn.append(has_turn(tmp_path, served, 1)), answers=1)

    assert had_turn == [True]
    assert [*said] == ["last"]


def test_what_fails_next_to_others_is_run_again_alone(tmp_path):
    """It fails as long as the other is there: of a lock, a port, a file."""
    lock, tried = tmp_path / "lock", tmp_path / "tried"

    def holds():
        lock.touch()
        comes(tried)
        lock.unlink()
        return Answer(TRACED)

    def needs():
        if tried.exists():
            return Answer("error" if lock.exists() else TRACED, raised=True)
        comes(lock)
        tried.touch()
        return Answer("error", raised=True)

    served = Served({"holds": holds, "needs": needs})
    said = served.run(["holds", "needs"])

    assert served.started == ["holds", "needs", "needs"]
    assert {key: one.outcome for key, one in said.items()} == {"holds": TRACED, "needs": TRACED}


def test_what_is_run_again_does_not_wait_for_all_that_is_asked_for_meanwhile():
    others = {f"other {number}": traced() for number in range(40)}
    served = Served({"fails": lambda: Answer("error", raised=True), "beside": traced(0.5), **others})

    said = served.run(["fails", "beside", *others])

    assert 2 < served.started.index("fails", 1) < 20
    assert len(said) == 42


@pytest.mark.parametrize("outcome", ["error", "skipped"])
def test_what_fails_alone_too_has_failed(outcome):
    def fails():
        return Answer(outcome, "always")

    served = Served({"fails": fails, "other": traced(0.3)})
    said = served.run(["fails", "other"])

    assert (said["fails"].outcome, said["fails"].reason) == (outcome, "always")
    assert served.started == ["fails", "other", "fails"]


def test_a_child_that_is_killed_or_hangs_costs_its_own_request_alone():
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs():
        time.sleep(60)

    bodies = {"dies": dies, "good": traced(0.1), "hangs": hangs, "last": traced()}
    found = Served(bodies, timeout=1).run(["dies", "good", "hangs", "last"])

    assert found["good"].outcome == found["last"].outcome == TRACED
    assert "was ended by signal 9 (SIGKILL) before its test did" in found["dies"].reason
    assert found["hangs"].reason.startswith("it did not finish within 1 s")
    assert "in hangs" in found["hangs"].reason


def test_an_answer_that_needs_no_child_comes_at_once():
    said = Served({"slow": traced(0.3), "unknown": Answer("error")}).run(["slow", "unknown"])

    assert [*said] == ["unknown", "slow"]


def test_when_the_session_goes_no_child_is_left(tmp_path):
    def writes():
        (tmp_path / str(os.getpid())).touch()
        time.sleep(60)

    served = Served({"one": writes, "two": writes})
    for number, key in enumerate(("one", "two")):
        served.session.send(Task(number, Request(key, "t.py", "L4", False, "allocated")).to_json())
    threading.Timer(1.0, served.session.close).start()

    with pytest.raises(SessionGone), closing(FolderLock(tmp_path)) as lock:
        served.served.serve(lambda task: False, lock)

    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_answer_that_is_the_last_ends_it():
    served = Served({"awake": Answer(TRACED, is_last=True), "other": traced()}, most=1)

    said = served.run(["awake"])

    assert [*said] == ["awake"]
