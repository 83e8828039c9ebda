"""FSDP2's whole parameters: gathered for a layer's forward and backward, and given back."""

from __future__ import annotations

from typing import Any

import torch

from ....tracking.tracker import Tracker


class Chunks:
    """``torch.chunk`` with empty tensors for the ranks that nothing is left for, each made when asked for.

    A rank asks for its own and for the first.
    """

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self._tensor = tensor
        self._dim = dim
        self._step = max(1, -(-tensor.size(dim) // num_chunks))

    def __getitem__(self, index: int) -> torch.Tensor:
        size = self._tensor.size(self._dim)
        start = index * self._step if size else 0
        if start >= size > 0:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, start, min(self._step, size - start))


def install_sharded_parameters(tracker: Tracker) -> None:
    """Note what ``fully_shard`` gathers parameters into: memory of collectives, not of parameters."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param

    own: Any = _fsdp_param
    own._chunk_with_empty = Chunks
    kind = own.FSDPParam
    original = kind.init_all_gather_outputs

    def init_all_gather_outputs(parameter: Any, *args: Any, **kwargs: Any) -> None:
        original(parameter, *args, **kwargs)
        for output in parameter.all_gather_outputs:
            tracker.note_collective(output, kept=True)

    resharded = kind.to_sharded_post_forward

    def to_sharded_post_forward(parameter: Any, *args: Any, **kwargs: Any) -> None:
        resharded(parameter, *args, **kwargs)
        tracker.note_collective(parameter._sharded_post_forward_param_data, kept=True)

    kind.init_all_gather_outputs = init_all_gather_outputs
    kind.to_sharded_post_forward = to_sharded_post_forward
