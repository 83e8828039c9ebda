"""Pending requests to a worker. Answers arrive in completion order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..protocol import Channel
from .answers import Request

#: The size of a pipe if the system does not report it (Linux's size for users with many pipes).
_PIPE_BYTES = 4096


@dataclass
class _Sent:
    request: Request
    size_bytes: int
    has_begun: bool = False


class PendingRequests:
    """The requests of one worker that have no answer yet, by their numbers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sent: dict[int, _Sent] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._sent)

    def __iter__(self) -> Iterator[Request]:
        return (sent.request for sent in self._sent.values())

    def begun(self) -> list[Request]:
        """The requests that are known to be running."""
        return [sent.request for sent in self._sent.values() if sent.has_begun]

    def send(self, request: Request, **more: Any) -> None:
        """Send ``request`` with ``more`` and its number. ``BrokenPipeError`` if the worker is gone."""
        self._count += 1
        message = {**request, **more, "number": self._count}
        self._sent[self._count] = _Sent(request, len(json.dumps(message)) + 1)
        self._channel.send(message)

    def has_room(self) -> bool:
        """Whether a request of the largest size can be written without blocking.

        The worker may be waiting for this side to read an answer: then both would block. A pipe consists of
        pages, of which a message may leave half unused (pipe_write in fs/pipe.c, Linux 6.12).
        """
        sizes = [sent.size_bytes for sent in self._sent.values()]
        return 2 * (sum(sizes) + max(sizes, default=0)) <= _capacity(self._channel.write_fd)

    def begin(self, message: Mapping[str, Any]) -> bool:
        """Record that the request of ``message`` runs; False if it is none of these."""
        sent = self._sent.get(message["number"])
        if sent is not None:
            sent.has_begun = True
        return sent is not None

    def take(self, message: Mapping[str, Any]) -> Request | None:
        """Remove and return the request that ``message`` answers; None if it answers none."""
        sent = self._sent.get(message.get("number", 0))
        if sent is None or message.get("key") != sent.request["key"]:
            return None
        del self._sent[message["number"]]
        return sent.request


def _capacity(fd: int) -> int:
    try:
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (ImportError, AttributeError, OSError):  # not on Linux
        return _PIPE_BYTES
