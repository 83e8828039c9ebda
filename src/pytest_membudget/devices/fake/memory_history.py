"""The history of ``torch.cuda.memory`` on the virtual device: kept when a test asks, in PyTorch's format."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from ...tracking.recording import Recording
from ...tracking.snapshot import segment_dict

#: What ``enabled=None`` and the older ``enabled=False`` say.
_OFF = (None, False)


class MemoryHistory:
    """Replacements of the private functions of ``torch.cuda.memory`` that users call for memory_viz.

    ``start`` begins the device's recording if there is none, and gives it; ``segments`` are the present ones.
    """

    def __init__(self, start: Callable[[], Recording], segments: Callable[[], list[Any]]) -> None:
        self._start = start
        self._segments = segments
        self._recording: Recording | None = None
        #: the number of the first event: the device may have recorded before the test asked
        self._since = 0
        self._text = ""

    def functions(self) -> dict[str, Callable[..., Any]]:
        """By their names in ``torch.cuda.memory``."""
        return {
            "memory_snapshot": lambda *args, **kwargs: self._snapshot()["segments"],
            "_record_memory_history": self._record,
            "_snapshot": self._snapshot,
            "_dump_snapshot": self._dump,
            "_set_memory_metadata": self._set_text,
            "_get_memory_metadata": lambda: self._text,
        }

    def _record(self, enabled: object = "all", *args: object, **kwargs: object) -> None:
        if enabled not in _OFF:
            if self._recording is None:
                self._recording = self._start()
                self._since = len(self._recording.log)
            self._recording.log.text = self._text

    def _snapshot(self, *args: object, **kwargs: object) -> dict[str, Any]:
        recorded = self._recording.snapshot(since=self._since) if self._recording is not None else None
        if recorded is not None:
            return recorded
        segments = [segment_dict(state, [], lambda address: []) for state in self._segments()]
        return {"segments": segments, "device_traces": [[]]}

    def _dump(self, filename: str = "dump_snapshot.pickle", *args: object, **kwargs: object) -> None:
        with open(filename, "wb") as file:
            pickle.dump(self._snapshot(), file)

    def _set_text(self, metadata: str) -> None:
        self._text = metadata
        if self._recording is not None:
            self._recording.log.text = metadata
