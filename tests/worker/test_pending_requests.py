"""What a session knows of requests that it has sent to a worker."""

import os

import pytest

from pytest_membudget.worker.client.pending_requests import InFlight
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
    flight = InFlight(near)

    number = flight.send(request("a"), timeout=3)

    assert far.receive() == {**request("a"), "timeout": 3, "number": number}
    assert flight.number_of(request("a")) == number
    assert flight.number_of(request("b")) is None
    assert flight.unanswered() == [request("a")]


def test_answers_come_in_any_order_and_are_taken_once(ends):
    flight = InFlight(ends[0])
    first, second = flight.send(request("a")), flight.send(request("b"))

    assert flight.note({"event": "started", "number": first})
    assert flight.begun() == [request("a")]
    assert flight.note({"event": "result", "key": "b", "number": second, "outcome": "traced"})
    assert flight.take(first) is None
    assert flight.answers() == [(request("b"), {"event": "result", "key": "b", "outcome": "traced"})]
    assert flight.take(second)["outcome"] == "traced"
    assert flight.number_of(request("b")) is None
    assert flight.unanswered() == [request("a")]


@pytest.mark.parametrize(
    "message",
    [
        {"event": "result", "key": "b", "number": 1},
        {"event": "result", "key": "a", "number": 2},
        {"event": "result", "key": "a"},
    ],
)
def test_an_answer_to_something_else_is_none(ends, message):
    flight = InFlight(ends[0])
    flight.send(request("a"))

    assert not flight.note(message)


def test_no_more_is_written_than_the_pipe_holds_if_nobody_reads(ends):
    flight = InFlight(ends[0])

    sent = 0
    while flight.has_room():
        flight.send(request(f"{sent:05}" + "x" * 5000))
        sent += 1

    assert 2 < sent < 20
