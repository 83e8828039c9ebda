"""Waits for the next message of a process, within its time limit."""

from __future__ import annotations

from typing import Any

from ..protocol import RUNNING, Channel
from ..time_limit import Overrun, Watch


class NoMessage(Exception):  # noqa: N818 - named for the event
    """A process has sent no message within its time limit."""

    def __init__(self, overrun: Overrun) -> None:
        super().__init__(overrun)
        self.overrun = overrun


def next_message(channel: Channel, pid: int, limit: float) -> dict[str, Any] | None:
    """The next message of process ``pid``; None if it has ended. Raises ``NoMessage`` over ``limit``.

    A heartbeat starts the limit again: the worker enforces the time limits of its tests.
    """
    while True:
        message = _any_message(channel, Watch(lambda: pid, limit))
        if message is None or message.get("event") != RUNNING:
            return message


def _any_message(channel: Channel, watch: Watch) -> dict[str, Any] | None:
    while True:
        try:
            return channel.receive(watch.wait_seconds())
        except TimeoutError:
            overrun = watch.look()
        if overrun is not None:
            raise NoMessage(overrun)
