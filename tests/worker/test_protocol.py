"""JSON lines between the session and its worker."""

import os
import threading
import time

import pytest

from pytest_membudget.worker.protocol import Channel


class ClosesOnce(Channel):
    """A channel that a test may close before the fixture does: a number that is free again may be taken."""

    is_closed = False

    def close(self):
        if not self.is_closed:
            self.is_closed = True
            super().close()


@pytest.fixture
def ends():
    """Two channels, each at one end of a pair of pipes."""
    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    near, far = ClosesOnce(near_read, near_write), ClosesOnce(far_read, far_write)
    yield near, far
    near.close()
    far.close()


def test_a_message_arrives_as_it_was_sent(ends):
    near, far = ends
    message = {"event": "result", "report": {"bytes": 2**40, "share": 0.5, "module": None}, "list": [1, "a"]}
    near.send(message)
    assert far.receive(timeout=5) == message


def test_messages_sent_at_once_arrive_one_by_one_in_order(ends):
    near, far = ends
    for number in range(3):
        near.send({"number": number})
    assert [far.receive(timeout=5) for _ in range(3)] == [{"number": 0}, {"number": 1}, {"number": 2}]


@pytest.mark.parametrize("text", ["two\nlines\r\n", "größer als 1 GiB ≥", "\ud800 alone", '"quoted" \\ \0'])
def test_any_text_arrives_whole(ends, text):
    near, far = ends
    near.send({"reason": text})
    near.send({"next": True})
    assert far.receive(timeout=5) == {"reason": text}
    assert far.receive(timeout=5) == {"next": True}


def test_a_message_larger_than_the_pipe_arrives_whole(ends):
    near, far = ends
    message = {"text": "x" * 1_000_000}  # a pipe holds 64 KiB on Linux
    sender = threading.Thread(target=near.send, args=(message,))
    sender.start()
    assert far.receive(timeout=30) == message
    sender.join()


def test_both_ends_can_send_more_than_the_pipes_hold_if_one_reads_meanwhile(ends):
    near, far = ends
    message = {"text": "x" * 1_000_000}
    received = []
    other_end = threading.Thread(target=lambda: (far.send(message), received.append(far.receive(30))))
    other_end.start()
    near.send(message, reads=True)
    other_end.join()
    assert near.receive(timeout=30) == received[0] == message


def test_a_message_that_comes_in_pieces_is_put_together(ends):
    near, far = ends
    os.write(near.write_fd, b'{"nodeid": "te')
    with pytest.raises(TimeoutError):
        far.receive(timeout=0.01)
    os.write(near.write_fd, b'st_a"}\n')
    assert far.receive(timeout=5) == {"nodeid": "test_a"}


def test_silence_ends_at_the_timeout(ends):
    _, far = ends
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        far.receive(timeout=0.05)
    assert 0.05 <= time.monotonic() - began < 5


def test_a_message_that_drips_in_does_not_put_the_timeout_off(ends):
    near, far = ends
    stop = threading.Event()

    def drip():
        while not stop.wait(0.01):
            os.write(near.write_fd, b" ")

    dripper = threading.Thread(target=drip)
    dripper.start()
    began = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            far.receive(timeout=0.1)
    finally:
        stop.set()
        dripper.join()
    assert time.monotonic() - began < 5


def test_a_message_that_is_there_already_needs_no_time(ends):
    near, far = ends
    near.send({"number": 0})
    near.send({"number": 1})
    far.receive(timeout=5)
    assert far.receive(timeout=0) == {"number": 1}


def test_what_was_sent_before_the_end_still_arrives(ends):
    near, far = ends
    near.send({"last": True})
    near.close()
    assert far.receive(timeout=5) == {"last": True}
    assert far.receive(timeout=5) is None


def test_half_a_message_before_the_end_is_none(ends):
    near, far = ends
    os.write(near.write_fd, b'{"event": "res')
    near.close()
    assert far.receive(timeout=5) is None


def test_sending_to_nobody_is_a_broken_pipe(ends):
    near, far = ends
    far.close()
    for reads in (False, True):
        with pytest.raises(BrokenPipeError):
            near.send({"nodeid": "test_a"}, reads=reads)


def test_closing_closes_both_ends(ends):
    near, _ = ends
    near.close()
    for fd in (near.read_fd, near.write_fd):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
