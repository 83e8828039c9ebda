"""BodysHistory: a history of the allocator that the test's body begins, next to the run's own.

PyTorch keeps one, which is the run's from its begin to its end. The body is shown what PyTorch would have
kept for it alone: what happened since it began, its own metadata, and no frame of this package.
"""

import inspect
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from ...tracking.running_code.replaced import Hooks, Replacement
from ...tracking.running_code.source import is_own
from .run_log import RunLog, own_text, state_in

#: Most events that the allocator keeps: more than any step has, and a limit for endless tests.
_MOST_EVENTS: Final = 2_000_000
_VALUES: Final = {
    "enabled": ("state", "all"),
    "context": (None, "state", "alloc", "all"),
    "stacks": ("python", "all"),
}


def record_run(record: Callable[..., None], context: str | None = "alloc") -> None:
    """Begin, or go on with, the run's history: ``record`` is PyTorch's ``_record_memory_history``.

    C++ stacks too: they name the operator, and distinguish libraries' workspaces from tensors.
    """
    record("all", context=context, stacks="all", max_entries=_MOST_EVENTS)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the body has asked for, as of ``torch.cuda.memory._record_memory_history``."""

    since: int
    """The number of the state from which on it counts."""
    context: str | None
    stacks: str = "all"
    max_entries: int = 0
    skipped: Collection[str] = ()

    def frames(self, frames: list[Any]) -> list[Any]:
        """Those of a stack that PyTorch would have recorded."""
        shown = [frame for frame in frames if not is_own(frame["filename"])]
        return shown if self.stacks == "all" else [frame for frame in shown if _is_python(frame)]


#: Before the body has asked for anything.
_NOTHING: Final = _Asked(0, None)


class BodysHistory(Hooks):
    """Answers in place of PyTorch's functions for histories, from ``install`` to ``remove``."""

    def __init__(self, log: Callable[[], RunLog]) -> None:
        """``log``: begins the run if it has not begun, and returns its log."""
        self._log = log
        self._asked = [_NOTHING]
        #: the first state of whose events the body keeps a trace; None while it keeps none
        self._since: int | None = None

    def _hooked(self) -> list[Replacement]:
        memory = torch.cuda.memory
        return [
            Replacement(memory, "_record_memory_history", self._recording),
            Replacement(memory, "_snapshot", self._reading),
            Replacement(memory, "_set_memory_metadata", lambda _: lambda text: self._log().set_text(text)),
            Replacement(memory, "_get_memory_metadata", lambda _: lambda: self._log().text),
        ]

    def _recording(self, record: Callable[..., None]) -> Callable[..., None]:
        def begin(enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
            log = self._log()
            wishes = _wishes(record, enabled, *args, **kwargs)
            if wishes["enabled"] and any(wishes[name] not in known for name, known in _VALUES.items()):
                return record(enabled, *args, **kwargs)  # which raises
            log.renew()
            self._ask(wishes, log.state)
            record_run(record, "all" if self._asked[-1].context == "all" else "alloc")
            return None

        return begin

    def _ask(self, wishes: Mapping[str, Any], now: int) -> None:
        if not wishes["enabled"]:
            self._since = None
            self._asked.append(_Asked(now, None))
            return
        if self._since is None or wishes["clear_history"]:
            self._since = now
        most = wishes["max_entries"] if wishes["enabled"] == "all" else 1
        skipped = wishes.get("skip_actions") or ()
        self._asked.append(_Asked(now, wishes["context"], wishes["stacks"], most, skipped))

    def _asked_at(self, state: int) -> _Asked:
        return self._asked[bisect_right(self._asked, state, key=lambda asked: asked.since) - 1]

    def _reading(self, snapshot: Callable[..., Any]) -> Callable[..., Any]:
        def read(*args: Any, **kwargs: Any) -> Any:
            self._log()
            content = snapshot(*args, **kwargs)
            allocated: dict[tuple[bool, int], _Asked] = {}
            for number, trace in enumerate(content["device_traces"]):
                content["device_traces"][number] = self._shown(trace, allocated)
            for segment in content["segments"]:
                _show(segment, allocated.get((True, segment["address"]), _NOTHING))
                for block in segment["blocks"]:
                    _show(block, allocated.get((False, block["address"]), _NOTHING))
            return content

        return read

    def _shown(
        self, trace: list[dict[str, Any]], allocated: dict[tuple[bool, int], _Asked]
    ) -> list[dict[str, Any]]:
        """What the body has kept of ``trace``.

        ``allocated`` receives what it asked for when each segment (True) and block was allocated, by address.
        """
        kept = []
        state = 0
        for event in trace:
            action = event["action"]
            state = max(state, state_in(event["user_metadata"]) or 0)
            asked = self._asked_at(state)
            if action in ("alloc", "segment_alloc", "segment_map"):
                allocated[action != "alloc", event["addr"]] = asked
            if self._since is not None and state >= self._since and action not in asked.skipped:
                kept.append(event)
                of_birth = action.startswith("free") and asked.context == "alloc"  # the stack is the block's
                shown = allocated.get((False, event["addr"]), _NOTHING) if of_birth else asked
                _show(event, shown if asked.context in ("alloc", "all") else _NOTHING)
        return kept[max(0, len(kept) - self._asked[-1].max_entries) :]


def _show(entry: dict[str, Any], asked: _Asked) -> None:
    """Leave in an event, a segment or a block what PyTorch had recorded."""
    if "frames" in entry:
        entry["frames"] = asked.frames(entry["frames"]) if asked.context is not None else []
    if "user_metadata" in entry:
        entry["user_metadata"] = own_text(entry["user_metadata"])


def _wishes(record: Callable[..., None], enabled: Any, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
    """The arguments by the names of today's form; ``enabled`` is a bool in the older one."""
    if not isinstance(enabled, bool):
        return _bound(record, enabled, *args, **kwargs)
    older = _bound(torch.cuda.memory._record_memory_history_legacy, enabled, *args, **kwargs)
    context = (
        ("alloc" if older["trace_alloc_record_context"] else "state") if older["record_context"] else None
    )
    return {
        "enabled": "all" if enabled else None,
        "context": context,
        "stacks": "all" if older["record_context_cpp"] else "python",
        "max_entries": older["trace_alloc_max_entries"],
        "clear_history": older["clear_history"],
    }


def _bound(function: Callable[..., None], *args: Any, **kwargs: Any) -> Mapping[str, Any]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _is_python(frame: Mapping[str, Any]) -> bool:
    return bool(frame["filename"].endswith(".py") or frame["filename"].startswith("<"))
