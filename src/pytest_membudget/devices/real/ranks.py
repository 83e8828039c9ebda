"""Records one of several ranks: its collectives, and FSDP2's gathered parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tracking.running_code.source import SourceFinder
from .collectives import CollectiveCalls, note_tensors
from .gathered import install_gathered
from .observer import RunObserver
from .sightings import StateLog


def follow_rank(observer: RunObserver, source: SourceFinder) -> CollectiveCalls:
    """Pass both to ``observer``; collectives as long as the result is referenced."""
    note = in_its_place(observer.sightings.note_collective, observer.log)
    see_gradient = in_its_place(observer.roles.see_gradient, observer.log)
    calls = CollectiveCalls(lambda operator, func, args, frame: note_tensors(note, args, frame, source))
    calls.install()
    install_gathered(note, see_gradient)
    return calls


def in_its_place(see: Callable[..., object], log: StateLog) -> Callable[..., None]:
    """``see``, in a new state before the next allocations: buffers of collectives are short-lived."""

    def seen(*args: Any, **kwargs: Any) -> None:
        see(*args, **kwargs)
        log.renew()

    return seen
