"""Who asked for each block, noted at the moment: the user's line, and the node of autograd that ran.

PyTorch calls back for each block that its allocator hands out (``torch.cuda._gpu_trace``, which its own CUDA
sanitizer uses). The allocator's history has the rest; the two are joined by address, in order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import torch

from ..tracking.source import SourceFinder

_node = torch._C._current_autograd_node
_graph_task = torch._C._current_graph_task_id


class AllocationCall(NamedTuple):
    """One request for memory."""

    code: CodeType | None
    """The user's code that was running; None in a thread of autograd's."""
    line: int
    node: int | None
    """Sequence number of the node of autograd that ran."""
    graph_task: int
    """Number of the backward that it ran in; -1 outside any."""


class AllocationCalls:
    """Notes the calls of this process from ``install`` to ``remove``, by address."""

    def __init__(self, source: SourceFinder) -> None:
        self._source = source
        self._calls: defaultdict[int, deque[AllocationCall]] = defaultdict(deque)
        self._is_on = False

    def install(self) -> None:
        """Start to note."""
        self._is_on = True
        _callbacks().register_callback_for_memory_allocation(self._allocated)
        torch._C._activate_gpu_trace()

    def remove(self) -> None:
        """Stop noting; PyTorch cannot be told to stop calling."""
        self._is_on = False

    def take(self, address: int) -> AllocationCall | None:
        """The earliest call for the block at ``address`` that was not taken yet; None if none was noted."""
        waiting = self._calls.get(address)
        return waiting.popleft() if waiting else None

    def _allocated(self, address: int) -> None:
        if not self._is_on:
            return
        node: Any = _node()
        code, line = self._source.find(2)
        number = node._sequence_nr() if node is not None else None
        self._calls[address].append(AllocationCall(code, line, number, _graph_task()))


def _callbacks() -> Any:
    """The private part of torch that this stands on: see tests/measured/test_allocation_calls.py."""
    from torch.cuda import _gpu_trace

    return _gpu_trace


#: For type annotations elsewhere: takes the call for an address.
TakeCall = Callable[[int], "AllocationCall | None"]
