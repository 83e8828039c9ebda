"""Where a history's allocations are from: the node of autograd's or the line, and the operator.

Of stacks as PyTorch records them, and of those that ``compact_history`` has read, which name both alone.
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
    name = str(frames[0]["name"]) if frames else ""
    if name.startswith("aten::"):  # as it was written, perhaps with what it was for
        return name.partition(" ")[0].replace(".", "_")
    return places.operator_of(frames)


def _short(filename: str) -> str:
    """The file and its folder; the rest of a path differs between machines."""
    return "/".join(re.split(r"[/\\]", filename)[-2:])
