"""In-place work that autograd avoids for fake tensors and does for real ones.

Where a tensor subclass or a dispatch mode is around, autograd writes to a fresh tensor instead of in place
(``isTensorSubclassLike``). Left alone, that makes every sum of gradients at a fan-in hold one tensor too
many: 1 to 2.6% of a transformer's peak. Here such operators do what they do for real tensors.

Sources, PyTorch 2.13: torch/csrc/autograd/input_buffer.cpp (``can_accumulate_inplace``),
torch/csrc/autograd/FunctionsManual.cpp (uses of ``areAnyTensorSubclassLike``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .kernel_layouts import is_dense

aten = torch.ops.aten

#: What ``tensor._use_count()`` and its storage's count read in our dispatch method when the engine's
#: buffer holds the only reference: the buffer, the argument stack, our Python object and the call's own.
#: tests/devices/fake/test_detours.py fails where a torch counts otherwise.
_SOLE_OWNER = (4, 2)

#: Backward nodes that write into a new tensor, out of place only for fakes.
_IN_PLACE_IN_NODE: dict[tuple[str, Any], Any] = {
    ("GatherBackward0", aten.scatter_add.default): aten.scatter_add_.default,
    ("MaxBackward0", aten.scatter.src): aten.scatter_.src,
    ("MinBackward0", aten.scatter.src): aten.scatter_.src,
    ("MedianBackward1", aten.scatter.src): aten.scatter_.src,
    ("ModeBackward0", aten.scatter.src): aten.scatter_.src,
    ("KthvalueBackward0", aten.scatter.src): aten.scatter_.src,
    ("SortBackward0", aten.scatter.src): aten.scatter_.src,
    ("TopkBackward0", aten.scatter.src): aten.scatter_.src,
    ("IndexSelectBackward0", aten.index_add.default): aten.index_add_.default,
    ("IndexBackward0", aten._index_put_impl.default): aten._index_put_impl_.default,
    ("IndexBackward0", aten.index_put.default): aten.index_put_.default,
    ("TakeBackward0", aten.put.default): aten.put_.default,
}

DETOURED = frozenset({aten.add.Tensor, *(operator for _, operator in _IN_PLACE_IN_NODE)})


def in_place_twin(operator: Any, args: Sequence[Any], node_of_first: int | None) -> Any:
    """The in-place operator that a real run would call for ``operator``, or None.

    To be asked in backward only, when the engine itself or a node of C++ calls. ``node_of_first`` is the
    sequence number of the node in which the first argument's storage was born.
    """
    node = torch._C._current_autograd_node()
    if node is None:
        return None
    if operator is not aten.add.Tensor:
        return _IN_PLACE_IN_NODE.get((node.name(), operator))
    first, second = args[0], args[1]
    if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)) or len(args) > 2:
        return None
    is_fan_in = node_of_first != node._sequence_nr() or _feeds_one_input_twice(node)
    if is_fan_in and _can_be_written(first) and first.dtype == second.dtype:
        return aten.add_.Tensor
    return None


def _can_be_written(tensor: torch.Tensor) -> bool:
    counts = (tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata))  # type: ignore[attr-defined]
    return counts == _SOLE_OWNER and is_dense(tensor)


def _feeds_one_input_twice(node: Any) -> bool:
    edges = [(id(function), index) for function, index in node.next_functions if function is not None]
    return len(set(edges)) < len(edges)
