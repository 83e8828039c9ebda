"""Record: one storage, its lifetime, origin and role."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from .. import components

#: by role: the earlier roles that it replaces. Parameters are frozen and unfrozen, a buffer or a tensor may
#: become a parameter, and a collective's buffer a gradient
_REPLACED_ROLES = {
    components.PARAMETERS: (components.FROZEN_PARAMETERS, components.BUFFERS),
    components.FROZEN_PARAMETERS: (components.PARAMETERS, components.BUFFERS),
    components.GRADIENTS: (components.COLLECTIVES,),
}


class Phase(Enum):
    """The phase of the step when a storage was allocated."""

    FORWARD = "forward"
    BACKWARD = "backward"
    #: forward code run again inside backward: activation checkpointing (and any double backward)
    RECOMPUTE = "recompute"
    OPTIMIZER = "optimizer"


class HasFile(Protocol):
    """A code object, or another object with its file."""

    @property
    def co_filename(self) -> str:
        """The file's name."""
        ...


class Record:
    """One storage: its block, its lifetime, where it was allocated, and its role.

    Mutable: a storage's role is often known only after its birth, as a gradient's once it is accumulated.
    """

    __slots__ = (
        "birth",
        "block",
        "code",
        "collective",
        "copied",
        "death",
        "for_update",
        "from_inputs",
        "line",
        "module",
        "name",
        "node",
        "operator",
        "phase",
        "request",
        "requested_bytes",
        "role",
        "root_call",
        "trained",
    )

    def __init__(self, requested_bytes: int, operator: str, phase: Phase) -> None:
        self.requested_bytes = requested_bytes
        self.operator = operator
        self.phase = phase
        self.block: Any = None
        self.birth = 0
        self.death: int | None = None
        #: the user's code that was running, and its line
        self.code: HasFile | None = None
        self.line = 0
        #: path of the innermost running nn.Module
        self.module: str | None = None
        #: number of the outermost nn.Module call it was born in; None outside any
        self.root_call: int | None = None
        #: born outside modules from nothing on the device but other inputs: a batch, a mask
        self.from_inputs = False
        #: made outside modules between a backward and the optimizer's step: norms, clipped gradients
        self.for_update = False
        #: a component, once seen in that role, and the name of the parameter or buffer it belongs to
        self.role: str | None = None
        self.name: str | None = None
        #: the storage whose values it was given, outside modules; of a copy's copy the first
        self.copied: Record | None = None
        #: a collective has used it
        self.collective = False
        #: a parameter that a gradient reached or that an optimizer holds
        self.trained = False
        #: sequence number of the autograd node that ran, in backward
        self.node: int | None = None
        #: number of the request in a recorded run
        self.request = -1

    def note_role(self, role: str, name: str | None = None) -> None:
        """Set ``role``; of several names the longest, a whole path, is kept."""
        if self.role is None or self.role in _REPLACED_ROLES.get(role, ()):
            self.role = role
        if name is not None and (self.name is None or len(name) > len(self.name)):
            self.name = name

    def note_copy(self, source: Record) -> None:
        """The storage was given the values of ``source``'s."""
        if self.phase is Phase.FORWARD and self.module is None and self is not source:
            self.copied = source.copied or source


def has_gradient(leaf: Record | None, *, is_parameter: bool) -> bool:
    """Whether what autograd passes to ``leaf`` is a gradient.

    A leaf that is neither a parameter nor made by the user is a reentrant checkpoint's copy of its
    input: its gradient is passed on, a temporary.
    """
    return is_parameter or (leaf is not None and leaf.from_inputs)
