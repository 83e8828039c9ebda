"""StreamChoice: the CUDA stream of the running operator; in backward, its forward's stream."""

from __future__ import annotations

from bisect import bisect_right

import torch

_next_node = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
_node = torch._C._current_autograd_node
#: The sequence number of nodes without operator: AccumulateGrad (UINT64_MAX, autograd/function.h, 2.13).
_NO_NUMBER = 2**64 - 1


class StreamChoice:
    """The stream of the running operator; 0 is the default stream.

    Autograd runs each node on the stream that was selected when the forward made it
    (``Node::stream``, torch/csrc/autograd/function.h), unless backward code selects another.
    """

    def __init__(self) -> None:
        self._selected = 0
        #: numbers of the autograd nodes from which on another stream was selected, and those streams
        self._first_nodes: list[int] = []
        self._streams: list[int] = []

    def select(self, stream: int) -> None:
        """``torch.cuda.set_stream``."""
        self._selected = stream
        self._first_nodes.append(_next_node())
        self._streams.append(stream)

    def current(self) -> int:
        """The stream of the running code."""
        if self._selected or not self._streams:
            return self._selected
        node = _node()
        number = node._sequence_nr() if node is not None else _NO_NUMBER
        if number == _NO_NUMBER:
            return self._selected
        place = bisect_right(self._first_nodes, number)
        return self._streams[place - 1] if place else 0
