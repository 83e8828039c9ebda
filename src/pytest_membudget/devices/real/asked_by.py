"""Who asked for an allocation, as its stack tells. A history has few stacks, each very often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from ...histories.places import function_of, is_workspace, makes_new_values, operator_of
from ...histories.reading import Frames

#: The user's line among an event's frames: file and line.
UsersLine = Callable[[Frames], tuple[str, int] | None]


@dataclass(frozen=True, slots=True)
class AskedBy:
    """What one stack tells."""

    operator: str
    """As the dispatcher names it; the innermost function where no operator ran."""
    is_workspace: bool
    makes_new_values: bool
    line: tuple[str, int] | None
    """The user's: file and line."""


def asking_function(frames: Frames) -> str:
    """The operator that asked, as the dispatcher names it; the innermost function where none ran."""
    return operator_name(operator_of(frames)) or function_of(frames)


class Stacks:
    """Reads stacks, each once: the events of a history share their frames' dictionaries, and live as long."""

    def __init__(self, users_line: UsersLine) -> None:
        self._users_line = users_line
        self._read: dict[tuple[int, ...], AskedBy] = {}

    def asked_by(self, frames: Frames) -> AskedBy:
        """What ``frames`` tell, the innermost first."""
        key = tuple(map(id, frames))
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = self._look(frames)
        return found

    def _look(self, frames: Frames) -> AskedBy:
        return AskedBy(
            asking_function(frames),
            is_workspace(frames),
            makes_new_values(operator_of(frames), frames),
            self._users_line(frames),
        )


def operator_name(called: str) -> str:
    """The name of ``called``, as ``histories.places.operator_of`` gives it; itself where it is unknown."""
    return _names().get(called, called)


@cache
def _names() -> dict[str, str]:
    """Each C++ name of an operator (``at::_ops::empty_memory_format``) is its own with underscores for dots.

    ``torch._C._dispatch_get_all_op_names`` is private; see tests/devices/real/test_operator_names.py.
    """
    own: Any = torch._C
    get = getattr(own, "_dispatch_get_all_op_names", list)
    return {name.replace(".", "_"): name for name in get() if "." in name}
