"""Pending requests to a worker. Answers arrive in completion order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..protocol import Channel

Request = Mapping[str, Any]
Answer = dict[str, Any]

#: What a pipe holds at the least where the system does not say (Linux gives that to users who have many).
_PIPE_BYTES = 4096


@dataclass
class _Sent:
    request: Request
    size_bytes: int
    has_begun: bool = False
    answer: Answer | None = None


class PendingRequests:
    """The requests of one worker by their numbers, each sent once."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sent: dict[int, _Sent] = {}
        self._count = 0

    def unanswered(self) -> list[Request]:
        """Those whose answers are still to come."""
        return [sent.request for sent in self._sent.values() if sent.answer is None]

    def number_of(self, request: Request) -> int | None:
        """The number of an equal request that is on its way, or answered and not taken yet."""
        return next((number for number, sent in self._sent.items() if sent.request == request), None)

    def send(self, request: Request, **more: Any) -> int:
        """Send ``request`` with ``more``, and give its number. ``BrokenPipeError`` if the worker is gone."""
        self._count += 1
        message = {**request, **more, "number": self._count}
        self._sent[self._count] = _Sent(request, len(json.dumps(message)) + 1)
        self._channel.send(message)
        return self._count

    def has_room(self) -> bool:
        """Whether a request like the largest of them can be written, though the worker may read none now.

        It may be waiting for this side to read an answer: then neither would go on. A pipe is made of pages,
        of which a message may leave half unused (pipe_write in fs/pipe.c, Linux 6.12).
        """
        sizes = [sent.size_bytes for sent in self._sent.values() if sent.answer is None]
        return 2 * (sum(sizes) + max(sizes, default=0)) <= _capacity(self._channel.write_fd)

    def note(self, message: Answer) -> bool:
        """Take what the worker says; False if it is about none of these."""
        sent = self._sent.get(message.get("number", 0))
        if sent is None or sent.answer is not None:
            return False
        if message["event"] == "started":
            sent.has_begun = True
            return True
        sent.answer = {name: value for name, value in message.items() if name != "number"}
        return bool(message.get("key") == sent.request["key"])

    def take(self, number: int) -> Answer | None:
        """The answer to request ``number``, once; None if it has not come."""
        answer = self._sent[number].answer
        if answer is not None:
            del self._sent[number]
        return answer

    def begun(self) -> list[Request]:
        """Those that were running when last heard of."""
        return [sent.request for sent in self._sent.values() if sent.has_begun and sent.answer is None]

    def answers(self) -> list[tuple[Request, Answer]]:
        """What has come and was not taken."""
        return [(sent.request, sent.answer) for sent in self._sent.values() if sent.answer is not None]


def _capacity(fd: int) -> int:
    try:
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (ImportError, AttributeError, OSError):  # no Linux
        return _PIPE_BYTES
