"""Where a history's allocations are from: the node of autograd's or the line, and the operator.

Of stacks as PyTorch records them, and of those that name both alone: of the snapshots that this package
writes, a test's own among them, and of what ``compact_history`` has read.
"""

from __future__ import annotations

import re

from pytest_membudget.allocator.history import Frames
from pytest_membudget.tracking import places
from pytest_membudget.tracking.places import BACKWARD, is_users, node_of
from pytest_membudget.tracking.running_code.source import is_compiled

NOWHERE = "no line of Python"
_NODE = re.compile(r"\w+Backward\d*|AccumulateGrad")


def place_of(frames: Frames) -> str:
    """The running autograd node, else the innermost line outside PyTorch: ``folder/file.py:12``."""
    if node := node_of(frames):
        return node
    for frame in frames:
        if is_users(frame) and not is_compiled(str(frame["filename"])):
            return f"{_short(str(frame['filename']))}:{frame['line']}"
    return NOWHERE if frames else BACKWARD


def is_node(place: str) -> bool:
    """Whether a place is a node of autograd's."""
    return _NODE.fullmatch(place) is not None


def operator_of(frames: Frames) -> str:
    """The operator that allocates, as ``aten::add_Tensor``; empty where no frame names one."""
    written = _written(frames)
    return written.partition(" ")[0].replace(".", "_") if written else places.operator_of(frames)


def is_workspace(frames: Frames) -> bool:
    """Whether a library or kernel allocated memory that is not a tensor's."""
    written = _written(frames)
    return written.endswith(" workspace") if written else places.is_workspace(frames)


def _written(frames: Frames) -> str:
    """The operator as the first frame names it, perhaps with what it was for; empty in PyTorch's stacks."""
    name = str(frames[0]["name"]) if frames else ""
    return name if name.startswith("aten::") else ""


def _short(filename: str) -> str:
    """The file and its folder; the rest of a path differs between machines."""
    return "/".join(re.split(r"[/\\]", filename)[-2:])
