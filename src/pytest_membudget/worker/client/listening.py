"""Waits for what a process says next."""

from __future__ import annotations

from typing import Any

from ..protocol import RUNNING, Channel
from ..time_limit import Overrun, Watch


class Silent(Exception):  # noqa: N818 - it is what has happened
    """A process has said nothing within its time limit."""

    def __init__(self, overrun: Overrun) -> None:
        super().__init__(overrun)
        self.overrun = overrun


def next_message(channel: Channel, pid: int, limit: float) -> dict[str, Any] | None:
    """What process ``pid`` says next; None if it has ended. Raises ``Silent`` where it is over ``limit``.

    While it says that tests run, it is not: their own time limits are kept there.
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
            raise Silent(overrun)
