"""What is followed in a process that is one of several ranks: its collectives, and what it gathers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tracking.source import SourceFinder
from .collectives import CollectiveCalls, note_tensors
from .gathered import install_gathered
from .observer import Observer
from .states import StateLog


def follow_rank(observer: Observer, source: SourceFinder) -> CollectiveCalls:
    """From here on ``observer`` is told of them; of collectives as long as what is returned is kept."""
    note = in_its_place(observer.sightings.note_collective, observer.log)
    see_gradient = in_its_place(observer.roles.see_gradient, observer.log)
    calls = CollectiveCalls(lambda operator, func, args, frame: note_tensors(note, args, frame, source))
    calls.install()
    install_gathered(note, see_gradient)
    return calls


def in_its_place(see: Callable[..., object], log: StateLog) -> Callable[..., None]:
    """``see``, so that what is seen lies before the next allocations: buffers of collectives live shortly."""

    def seen(*args: Any, **kwargs: Any) -> None:
        see(*args, **kwargs)
        log.renew()

    return seen
