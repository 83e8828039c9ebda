"""What a session knows of requests that it has sent to a worker."""

import os

import pytest

from pytest_membudget.worker.client.pending_requests import PendingRequests
from pytest_membudget.worker.protocol import Channel


@pytest.fixture
def ends():
    read_fd, write_fd = os.pipe()
    yield Channel(-1, write_fd), Channel(read_fd, -1)
    os.close(read_fd)
    os.close(write_fd)


def request(key):
    return {"key": key, "file": "t.py"}


def test_each_is_sent_once_and_found_by_what_it_asks(ends):
    near, far = ends
    pending = PendingRequests(near)

    number = pending.send(request("a"), timeout=3)

    assert far.receive() == {**request("a"), "timeout": 3, "number": number}
    assert pending.number_of(request("a")) == number
    assert pending.number_of(request("b")) is None
    assert pending.unanswered() == [request("a")]


def test_answers_come_in_any_order_and_are_taken_once(ends):
    pending = PendingRequests(ends[0])
    first, second = pending.send(request("a")), pending.send(request("b"))

    assert pending.note({"event": "started", "number": first})
    assert pending.begun() == [request("a")]
    assert pending.note({"event": "result", "key": "b", "number": second, "outcome": "traced"})
    assert pending.take(first) is None
    assert pending.answers() == [(request("b"), {"event": "result", "key": "b", "outcome": "traced"})]
    assert pending.take(second)["outcome"] == "traced"
    assert pending.number_of(request("b")) is None
    assert pending.unanswered() == [request("a")]


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

    assert not pending.note(message)


def test_no_more_is_written_than_the_pipe_holds_if_nobody_reads(ends):
    pending = PendingRequests(ends[0])

    sent = 0
    while pending.has_room():
        pending.send(request(f"{sent:05}" + "x" * 5000))
        sent += 1

    assert 2 < sent < 20
