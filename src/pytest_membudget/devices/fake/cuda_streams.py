"""Streams and events of the virtual device: nothing runs on them, but each has its pools of memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from .ordinal import own_device, own_index

#: Streams that a process has of one priority; later ones are the earlier ones again
#: (kStreamsPerPool of c10/cuda/CUDAStream.cpp, 2.13).
_STREAMS = 32
#: CUDA in c10::DeviceType.
_CUDA = 1

_numbers = itertools.count()


class Stream(torch.Stream):
    """A CUDA stream on which nothing runs; work is done when it is asked for."""

    priority: int
    _contexts: list[StreamContext]

    def __new__(cls, device: object = None, priority: int = 0, **given: int) -> Stream:
        """A new stream, or the one that ``stream_id`` names."""
        number = given["stream_id"] if "stream_id" in given else 1 + next(_numbers) % _STREAMS
        stream: Stream = super().__new__(cls, stream_id=number, device_index=own_index(), device_type=_CUDA)
        stream.priority = priority
        stream._contexts = []
        return stream

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest priority, as on recent cards."""
        return 0, -5

    @property
    def cuda_stream(self) -> int:
        """The handle; that of the default stream is 0."""
        return self.stream_id

    def __enter__(self) -> Stream:
        self._contexts.append(StreamContext(self))
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._contexts.pop().__exit__()

    def query(self) -> bool:
        """All work is done."""
        return True

    def is_capturing(self) -> bool:
        """No graph is being captured."""
        return False

    def synchronize(self) -> None:
        """All work is done."""

    def wait_stream(self, stream: object) -> None:
        """All work of the other stream is done."""

    def wait_event(self, event: object) -> None:
        """All work before the event is done."""

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or Event()

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:{own_index()} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A CUDA event that has happened; no time passes between two of them that anyone could measure."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **_: object) -> None:
        self.device = own_device()
        self.cuda_event = 0
        self.event_id = 0

    def record(self, stream: object = None) -> None:
        """It has happened."""

    def wait(self, stream: object = None) -> None:
        """It has happened."""

    def query(self) -> bool:
        """It has happened."""
        return True

    def synchronize(self) -> None:
        """It has happened."""

    def elapsed_time(self, end_event: object) -> float:
        """A plausible number of milliseconds: code divides by it."""
        return 1.0


class StreamContext:
    """``torch.cuda.stream``: what is allocated inside comes from the stream's own pools."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._outer: list[Stream] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._outer.append(torch.cuda.current_stream())  # type: ignore[arg-type]
            torch.cuda.set_stream(self.stream)  # type: ignore[arg-type]

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            torch.cuda.set_stream(self._outer.pop())  # type: ignore[arg-type]


def stream_functions(select: Callable[[int], None]) -> dict[str, Any]:
    """``torch.cuda`` names for streams and events; ``select`` is called with the current number."""
    defaults: dict[int, Stream] = {}  # one for each number that the device has had
    selected: list[Stream | None] = [None]

    def default(device: object = None) -> Stream:
        index = own_index()
        return defaults.get(index) or defaults.setdefault(index, Stream(stream_id=0))

    def current(device: object = None) -> Stream:
        return selected[0] or default()

    def set_stream(stream: Stream | None) -> None:
        if stream is not None:
            selected[0] = stream
            select(stream.stream_id)

    return {
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "current_stream": current,
        "default_stream": default,
        "set_stream": set_stream,
        "get_stream_from_external": lambda data_ptr=0, device=None: Stream(stream_id=data_ptr),
    }
