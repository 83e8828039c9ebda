"""What FSDP2 gathers parameters into: memory of collectives, wherever it lies this time.

The tensors stay, and their storages are given memory before each all-gather and none after use.
"""

from __future__ import annotations

from typing import Any

from .collectives import NoteCollective


def install_gathered(note_collective: NoteCollective) -> None:
    """Note it each time that it is there."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param

    kind: Any = _fsdp_param.FSDPParam
    allocate, reshard = kind.alloc_all_gather_outputs, kind.to_sharded_post_forward

    def alloc_all_gather_outputs(parameter: Any) -> None:
        allocate(parameter)
        for output in parameter.all_gather_outputs:
            note_collective(output, kept=True)

    def to_sharded_post_forward(parameter: Any, *args: Any, **kwargs: Any) -> None:
        reshard(parameter, *args, **kwargs)
        note_collective(parameter._sharded_post_forward_param_data, kept=True)

    kind.alloc_all_gather_outputs = alloc_all_gather_outputs
    kind.to_sharded_post_forward = to_sharded_post_forward
