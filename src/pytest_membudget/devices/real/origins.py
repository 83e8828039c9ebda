"""Origins: the operator and the user's line of an allocation, from its stack."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from ...allocator.history import Frames
from ...tracking.places import (
    call_of,
    copied_for,
    function_of,
    is_in_backward,
    is_in_checkpoint,
    is_workspace,
    makes_new_values,
    operator_of,
    outside_modules,
)
from ...tracking.record import Line
from .compiled_code import kernel_of, module_of, tuned_kernel

#: The user's line among an event's frames: file and line.
UsersLine = Callable[[Frames], Line | None]


@dataclass(frozen=True, slots=True)
class Origin:
    """Operator and line of an allocation."""

    operator: str
    """The dispatcher's name, or the compiled kernel's; the innermost function if none ran."""
    is_workspace: bool
    makes_new_values: bool
    line: Line | None
    """File and line of the user's code."""
    caller: Line | None
    """The user's own line around the outermost module, or the library, that ``line`` is in."""
    call: tuple[object, ...]
    """The same for all that one call of an operator allocates."""
    copied_for: str
    """The operator of that call, if it is another one that copies for it; else empty."""
    module: str | None
    """In compiled code, the path of the module from the compiled one."""
    in_backward: bool
    """Whether autograd's engine runs it."""
    recomputes: bool
    """Whether it is a checkpoint's, which computes again what it has not kept."""


def requesting_function(frames: Frames) -> str:
    """The operator that allocates, as the dispatcher names it, or the compiled kernel it is for.

    Without one, the innermost function.
    """
    if tuned := tuned_kernel(frames):
        return f"tuning of {tuned}"
    return operator_name(operator_of(frames)) or kernel_of(frames) or function_of(frames)


def stack_key(frames: Frames) -> tuple[int, ...]:
    """Which objects a stack has: PyTorch makes one for each frame, which the stacks of a history share.

    Not by ``id``, each call of which is an event for Python's audit hooks, ours too.
    """
    return tuple(map(object.__hash__, frames))


class Origins:
    """Reads stacks, each once: the events of a history share the dictionaries of their frames."""

    def __init__(self, users_line: UsersLine, own_line: UsersLine = lambda frames: None) -> None:
        """``own_line``: as ``users_line``, in no library."""
        self._users_line, self._own_line = users_line, own_line
        self._read: dict[tuple[int, ...], Origin] = {}

    def of(self, frames: Frames) -> Origin:
        """The origin of ``frames``, the innermost first."""
        key = stack_key(frames)
        if key not in self._read:
            line, caller = self._users_line(frames), self._own_line(outside_modules(frames))
            self._read[key] = Origin(
                requesting_function(frames),
                is_workspace(frames),
                makes_new_values(operator_of(frames), frames),
                line,
                caller if caller != line else None,
                call_of(frames),
                operator_name(copied_for(frames)),
                module_of(frames),
                is_in_backward(frames),
                is_in_backward(frames) and is_in_checkpoint(frames),
            )
        return self._read[key]


def operator_name(called: str) -> str:
    """The name of ``called``, as ``operator_of`` gives it; itself where it is unknown."""
    return _names().get(called, called)


@cache
def _names() -> dict[str, str]:
    """Each C++ name of an operator (``at::_ops::empty_memory_format``) is its own with underscores for dots.

    ``torch._C._dispatch_get_all_op_names`` is private; see tests/devices/real/test_origins.py.
    """
    names: list[str] = torch._C._dispatch_get_all_op_names()
    return {name.replace(".", "_"): name for name in names if "." in name}
