"""Children of a worker beside each other: which run when, and whose answers count."""

import os
import signal
import threading
import time

import pytest

from pytest_membudget.worker.protocol import Channel
from pytest_membudget.worker.server import concurrent_runs
from pytest_membudget.worker.server.child_process import Child, SessionGone
from pytest_membudget.worker.server.concurrent_runs import ConcurrentRuns


class Served:
    """An ``ConcurrentRuns`` at one end of two pipes; ``bodies`` by key are what its children run."""

    def __init__(self, bodies, most=2, free=float("inf"), timeout=20):
        own_read, their_write = os.pipe()
        their_read, own_write = os.pipe()
        self.session = Channel(own_read, own_write)
        self.channel = Channel(their_read, their_write)
        self.started, self.ended = [], []

        def start(request):
            self.started.append(request["key"])
            body = bodies[request["key"]]
            return body if isinstance(body, dict) else Child(body, timeout, self.session)

        self.served = ConcurrentRuns(
            self.channel, most, start, lambda request: self.ended.append(request["key"]), lambda: free
        )

    def run(self, keys, *, close_after=None):
        """What it says of ``keys``, all asked at once."""
        for number, key in enumerate(keys, start=1):
            self.session.send({"key": key, "number": number})
        said = []

        def listen():
            while len([one for one in said if one["event"] == "result"]) < len(keys):
                said.append(self.session.receive(30))
            self.session.close()

        thread = threading.Thread(target=listen)
        thread.start()
        self.served.serve()
        thread.join()
        return said


def traced(seconds=0.0):
    def body():
        time.sleep(seconds)
        return {"outcome": "traced", "pid": os.getpid()}

    return body


def order_of(said, event):
    return [one["key"] for one in said if one["event"] == event]


def test_two_run_at_once_and_answer_when_they_end():
    served = Served({"slow": traced(0.6), "quick": traced(0.1), "third": traced(0.1)})
    began = time.monotonic()

    said = served.run(["slow", "quick", "third"])

    assert order_of(said, "result") == ["quick", "third", "slow"]
    assert served.started == ["slow", "quick", "third"]
    assert served.ended == ["quick", "third", "slow"]
    assert time.monotonic() - began < 20


def test_one_at_a_time_answers_in_order():
    said = Served({"slow": traced(0.3), "quick": traced()}, most=1).run(["slow", "quick"])

    assert order_of(said, "result") == ["slow", "quick"]


def test_where_memory_is_short_one_runs_at_a_time():
    said = Served({"slow": traced(0.3), "quick": traced()}, free=concurrent_runs.ROOM_BYTES).run(
        ["slow", "quick"]
    )

    assert order_of(said, "result") == ["slow", "quick"]


def test_what_fails_next_to_others_is_run_again_alone(tmp_path):
    """It fails as long as the other is there: of a lock, a port, a file."""
    lock = tmp_path / "lock"

    def holds():
        lock.touch()
        time.sleep(0.5)
        lock.unlink()
        return {"outcome": "traced"}

    def needs():
        time.sleep(0.2)
        return {"outcome": "error" if lock.exists() else "traced", "raised": True}

    served = Served({"holds": holds, "needs": needs})
    said = served.run(["holds", "needs"])

    assert served.started == ["holds", "needs", "needs"]
    assert {one["key"]: one["outcome"] for one in said if one["event"] == "result"} == {
        "holds": "traced",
        "needs": "traced",
    }


@pytest.mark.parametrize("outcome", ["error", "skipped"])
def test_what_fails_alone_too_has_failed(outcome):
    def fails():
        return {"outcome": outcome, "reason": "always"}

    served = Served({"fails": fails, "other": traced(0.3)})
    said = served.run(["fails", "other"])

    (answer,) = (one for one in said if one.get("key") == "fails")
    assert (answer["outcome"], answer["reason"]) == (outcome, "always")
    assert served.started == ["fails", "other", "fails"]


def test_a_child_that_is_killed_or_hangs_costs_its_own_request_alone():
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs():
        time.sleep(60)

    bodies = {"dies": dies, "good": traced(0.1), "hangs": hangs, "last": traced()}
    said = Served(bodies, timeout=1).run(["dies", "good", "hangs", "last"])

    found = {one["key"]: one for one in said if one["event"] == "result"}
    assert found["good"]["outcome"] == found["last"]["outcome"] == "traced"
    assert "was ended by signal 9 (SIGKILL) before its test did" in found["dies"]["reason"]
    assert found["hangs"]["reason"].startswith("it did not finish within 1 s")
    assert "in hangs" in found["hangs"]["reason"]


def test_an_answer_that_needs_no_child_comes_at_once():
    said = Served({"slow": traced(0.3), "unknown": {"outcome": "error"}}).run(["slow", "unknown"])

    assert order_of(said, "result") == ["unknown", "slow"]


def test_when_the_session_goes_no_child_is_left(tmp_path):
    def writes():
        (tmp_path / str(os.getpid())).touch()
        time.sleep(60)

    served = Served({"one": writes, "two": writes})
    for number, key in enumerate(("one", "two"), start=1):
        served.session.send({"key": key, "number": number})
    threading.Timer(1.0, served.session.close).start()

    with pytest.raises(SessionGone):
        served.served.serve()

    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_answer_that_is_the_last_ends_it():
    served = Served({"awake": {"outcome": "traced", "is_last": True}, "other": traced()}, most=1)

    said = served.run(["awake"])

    assert order_of(said, "result") == ["awake"]
