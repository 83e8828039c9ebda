"""BodysHistory: a history of the allocator that the test's body begins, next to the run's own.

PyTorch keeps one, which is the run's from its begin to its end. The body is shown what happened since it
began, its own metadata, and no frame of this package; stacks of all of it, whichever it has asked for.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final

import torch

from ...tracking.running_code.replaced import Hooks, Replacement
from ...tracking.running_code.source import is_own
from .run_log import RunLog, own_text, state_in

#: Most events that the allocator keeps: more than any step has, and a limit for endless tests.
_MOST_EVENTS: Final = 2_000_000
_BIRTHS: Final = ("alloc", "segment_alloc", "segment_map")


def record_run(record: Callable[..., None], context: str | None = "alloc") -> None:
    """Begin, or go on with, the run's history: ``record`` is PyTorch's ``_record_memory_history``.

    C++ stacks too: they name the operator, and distinguish libraries' workspaces from tensors.
    """
    record("all", context=context, stacks="all", max_entries=_MOST_EVENTS)


class BodysHistory(Hooks):
    """Answers in place of PyTorch's functions for histories, from ``install`` to ``remove``."""

    def __init__(self, log: Callable[[], RunLog]) -> None:
        """``log``: begins the run if it has not begun, and returns its log."""
        self._log = log
        #: the states at which the body has begun to record, or ended it
        self._changes = [(0, False)]
        #: the first state of whose events the body keeps a trace; None while it keeps none
        self._since: int | None = None
        self._most_events = 0

    def _hooked(self) -> list[Replacement]:
        memory = torch.cuda.memory
        return [
            Replacement(memory, "_record_memory_history", self._recording),
            Replacement(memory, "_snapshot", self._reading),
            Replacement(memory, "_set_memory_metadata", lambda _: lambda text: self._log().set_text(text)),
            Replacement(memory, "_get_memory_metadata", lambda _: lambda: self._log().text),
        ]

    def _recording(self, record: Callable[..., None]) -> Callable[..., None]:
        def begin(
            enabled: Any = "all",
            context: Any = None,
            stacks: Any = None,
            max_entries: int = sys.maxsize,
            device: Any = None,
            clear_history: bool = False,
            **older: Any,
        ) -> None:
            log = self._log()
            log.renew()
            if not enabled:
                self._since = None
            elif self._since is None or clear_history:
                self._since = log.state
            self._changes.append((log.state, bool(enabled)))
            self._most_events = older.get("trace_alloc_max_entries", 1 if enabled == "state" else max_entries)
            record_run(record, "all" if enabled else "alloc")

        return begin

    def _is_recorded(self, state: int) -> bool:
        return self._changes[bisect_right(self._changes, state, key=lambda change: change[0]) - 1][1]

    def _reading(self, snapshot: Callable[..., Any]) -> Callable[..., Any]:
        def read(*args: Any, **kwargs: Any) -> Any:
            self._log()
            content = snapshot(*args, **kwargs)
            recorded: dict[tuple[bool, int], bool] = {}
            for number, trace in enumerate(content["device_traces"]):
                content["device_traces"][number] = self._shown(trace, recorded)
            for segment in content["segments"]:
                _show(segment, recorded.get((True, segment["address"]), False))
                for block in segment["blocks"]:
                    _show(block, recorded.get((False, block["address"]), False))
            return content

        return read

    def _shown(
        self, trace: list[dict[str, Any]], recorded: dict[tuple[bool, int], bool]
    ) -> list[dict[str, Any]]:
        """What the body has kept of ``trace``.

        ``recorded`` receives whether it recorded when each segment (True) and block was made, by address.
        """
        kept = []
        state = 0
        for event in trace:
            state = max(state, state_in(event["user_metadata"]) or 0)
            if event["action"] in _BIRTHS:
                recorded[event["action"] != "alloc", event["addr"]] = self._is_recorded(state)
            if self._since is not None and state >= self._since:
                kept.append(event)
                _show(event, True)
        return kept[max(0, len(kept) - self._most_events) :]


def _show(entry: dict[str, Any], is_recorded: bool) -> None:
    """Leave in an event, a segment or a block what PyTorch had recorded."""
    if "frames" in entry:
        frames = entry["frames"] if is_recorded else ()
        entry["frames"] = [frame for frame in frames if not is_own(frame["filename"])]
    if "user_metadata" in entry:
        entry["user_metadata"] = own_text(entry["user_metadata"])
