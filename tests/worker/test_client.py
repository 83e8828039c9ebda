"""Which request a worker's message answers."""

import pytest

from pytest_membudget.worker.client.client import take_answered


def request(key):
    return {"key": key, "file": "t.py"}


def test_answers_come_in_any_order_and_end_their_requests():
    pending = {1: request("a"), 2: request("b")}
    answer = {"event": "result", "key": "b", "number": 2, "outcome": "traced"}

    assert take_answered(pending, answer) == request("b")
    assert pending == {1: request("a")}
    assert take_answered(pending, answer) is None


@pytest.mark.parametrize(
    "message",
    [
        {"event": "result", "key": "b", "number": 1},
        {"event": "result", "key": "a", "number": 2},
        {"event": "result", "key": "a"},
    ],
)
def test_an_answer_to_something_else_is_none(message):
    pending = {1: request("a")}

    assert take_answered(pending, message) is None
    assert pending == {1: request("a")}
