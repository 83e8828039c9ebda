"""What a session knows of requests that it has sent to a worker."""

import os

import pytest

from pytest_membudget.worker.client.client import PendingRequests
from pytest_membudget.worker.protocol import Channel


@pytest.fixture
def ends():
    read_fd, write_fd = os.pipe()
    yield Channel(-1, write_fd), Channel(read_fd, -1)
    os.close(read_fd)
    os.close(write_fd)


def request(key):
    return {"key": key, "file": "t.py"}


def test_each_is_sent_with_its_number(ends):
    near, far = ends
    pending = PendingRequests(near)

    pending.send(request("a"), timeout=3)

    assert far.receive() == {**request("a"), "timeout": 3, "number": 1}
    assert list(pending) == [request("a")]


def test_answers_come_in_any_order_and_end_their_requests(ends):
    pending = PendingRequests(ends[0])
    for key in ("a", "b"):
        pending.send(request(key))

    assert pending.begin({"event": "started", "number": 1})
    assert pending.begun() == [request("a")]
    answer = {"event": "result", "key": "b", "number": 2, "outcome": "traced"}
    assert pending.take(answer) == request("b")
    assert list(pending) == pending.begun() == [request("a")]
    assert pending.take(answer) is None


@pytest.mark.parametrize(
    "message",
    [
        {"event": "result", "key": "b", "number": 1},
        {"event": "result", "key": "a", "number": 2},
        {"event": "result", "key": "a"},
    ],
)
def test_an_answer_to_something_else_is_none(ends, message):
    pending = PendingRequests(ends[0])
    pending.send(request("a"))

    assert pending.take(message) is None
    assert list(pending) == [request("a")]


def test_a_start_of_something_else_is_none(ends):
    assert not PendingRequests(ends[0]).begin({"event": "started", "number": 1})


def test_no_more_is_written_than_the_pipe_holds_if_nobody_reads(ends):
    pending = PendingRequests(ends[0])

    sent = 0
    while pending.has_room():
        pending.send(request(f"{sent:05}" + "x" * 5000))
        sent += 1

    assert 2 < sent < 20
