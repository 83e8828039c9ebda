"""Record: one storage, its lifetime, origin and role."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from posixpath import commonpath

from .. import components

#: by role: the earlier roles that it replaces. Parameters are frozen and unfrozen, a buffer or a tensor may
#: become a parameter, and a collective's buffer a gradient
_REPLACED_ROLES = {
    components.PARAMETERS: (components.FROZEN_PARAMETERS, components.BUFFERS),
    components.FROZEN_PARAMETERS: (components.PARAMETERS, components.BUFFERS),
    components.GRADIENTS: (components.COLLECTIVES,),
}
#: roles of what a model holds
HELD = (components.PARAMETERS, components.FROZEN_PARAMETERS, components.BUFFERS)


#: File and line.
Line = tuple[str, int]


class Phase(Enum):
    """The phase of the step when a storage was allocated."""

    FORWARD = "forward"
    BACKWARD = "backward"
    #: forward code run again inside backward: activation checkpointing (and any double backward)
    RECOMPUTE = "recompute"
    OPTIMIZER = "optimizer"


@dataclass(slots=True, eq=False)
class Record:
    """One storage: its block, its lifetime, where it was allocated, and its role.

    Mutable: a storage's role is often known only after its birth, as a gradient's once it is accumulated.
    """

    requested_bytes: int
    operator: str
    phase: Phase
    block_bytes: int = 0
    """The allocator's block: what was requested, rounded, and a rest that was not split off."""
    address: int = 0
    birth: int = 0
    death: int | None = None
    file: str | None = None
    """The file of the user's code that was running."""
    line: int = 0
    caller: Line | None = None
    """The user's own line that called the outermost nn.Module, or the library, that the line is in."""
    callers: Collection[Line] = ()
    """Those of its line in the run."""
    module: str | None = None
    """Path of the innermost running nn.Module."""
    root_call: int | None = None
    """Number of the outermost nn.Module call it was born in; None outside any."""
    from_inputs: bool = False
    """Born outside modules from nothing on the device but other inputs: a batch, a mask."""
    for_update: bool = False
    """Made outside modules between a backward and the optimizer's step: norms, clipped gradients."""
    role: str | None = None
    """A component, once seen in that role."""
    name: str | None = None
    """The name of the parameter or buffer that it belongs to."""
    computed_from: Record | None = None
    """The parameter, or buffer, from which alone its values were computed."""
    is_copy: bool = False
    """These are its values, perhaps of another type."""
    collective: bool = False
    """A collective has used it."""
    trained: bool = False
    """A parameter that a gradient reached or that an optimizer holds."""
    dtype: str | None = None
    """Of the first tensor in it whose dtype was seen."""
    event: int = -1
    """Number of the event that allocated it, in the allocator's history."""

    def note_dtype(self, dtype: str) -> None:
        """A tensor of ``dtype`` is in the storage."""
        self.dtype = self.dtype or dtype

    def note_role(self, role: str, name: str | None = None, dtype: str | None = None) -> None:
        """Set ``role``; of several names the longest, a whole path, is kept."""
        self.dtype = self.dtype or dtype
        if self.role in (None, components.UNATTRIBUTED, *_REPLACED_ROLES.get(role, ())):
            self.role = role
        if name is not None and (self.name is None or len(name) > len(self.name)):
            self.name = name

    def note_copy(self, *sources: Record | None) -> None:
        """The storage was given the values of another's."""
        self.note_computed(*sources)
        self.is_copy = all(source is not None and source.is_held_or_copy for source in sources)

    def note_computed(self, *sources: Record | None) -> None:
        """Its values were computed from those of ``sources``, and of nothing else; without any, of others."""
        found = [source.origin if source is not None else None for source in sources]
        weights = [one for one in found if one is not None and one.role != components.BUFFERS]
        self.computed_from = (weights or found or [None])[0] if None not in found else None
        self.is_copy = False

    @property
    def origin(self) -> Record | None:
        """The parameter, or buffer, that its values are, or were computed from; None if of anything else."""
        return self if self.role in HELD else self.computed_from

    @property
    def is_held_or_copy(self) -> bool:
        """Whether its values are those of a parameter or a buffer."""
        return self.role in HELD or self.is_copy

    def note_trained(self, is_parameter: bool = True) -> None:
        """A gradient has reached the storage, or an optimizer holds it."""
        self.trained = self.trained or _has_gradient(self, is_parameter)

    def note_gradient(self, leaf: Record | None, name: str | None, is_parameter: bool) -> None:
        """Autograd passes the storage to ``leaf``; ``name``: of the parameter."""
        if not _has_gradient(leaf, is_parameter):
            return
        known = self.name if self.role == components.GRADIENTS else None
        if known and name and not known.endswith(name) and not name.endswith(known):  # a bucket of several
            both = commonpath([one.replace(".", "/") for one in (known, name)])
            self.name = both.replace("/", ".") or known
        else:
            self.note_role(components.GRADIENTS, name)

    def note_collective(self, kept: bool) -> None:
        """A collective uses the storage; ``kept``: it is a buffer that is kept for that."""
        self.collective = True
        if kept:
            self.note_role(components.COLLECTIVES)


def _has_gradient(leaf: Record | None, is_parameter: bool) -> bool:
    """Whether what autograd passes to ``leaf`` is a gradient.

    A leaf that is neither a parameter nor made by the user is a reentrant checkpoint's copy of its
    input: its gradient is passed on, a temporary.
    """
    return is_parameter or (leaf is not None and (leaf.from_inputs or leaf.role in HELD))
