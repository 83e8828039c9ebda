"""What a role that was seen makes of a record: which of two roles stands, and what counts as a gradient."""

from __future__ import annotations

from .. import components
from .record import Record

#: which earlier role a later one may replace: parameters are frozen and thawed, and a buffer or a plain
#: tensor's storage may turn out to be a parameter's; what a collective leaves in its buffer may be a gradient
_CHANGEABLE = {
    components.PARAMETERS: (components.FROZEN_PARAMETERS, components.BUFFERS),
    components.FROZEN_PARAMETERS: (components.PARAMETERS, components.BUFFERS),
    components.GRADIENTS: (components.COLLECTIVES,),
}


def note_role(record: Record, role: str, name: str | None) -> None:
    """``record``'s storage was seen in ``role``; the longest name, a whole path, is kept."""
    if record.role is None or record.role in _CHANGEABLE.get(role, ()):
        record.role = role
    if name is not None and (record.name is None or len(name) > len(record.name)):
        record.name = name


def has_gradient(leaf: Record | None, *, is_parameter: bool) -> bool:
    """Whether what autograd hands to ``leaf`` is a gradient.

    A leaf that is neither a parameter nor made by the user is a reentrant checkpoint's copy of its
    input: its gradient is on its way through, a temporary.
    """
    return is_parameter or (leaf is not None and leaf.from_inputs)
