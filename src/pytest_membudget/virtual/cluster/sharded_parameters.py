"""FSDP2's whole parameters: gathered for a layer's forward and backward, and given back."""

from __future__ import annotations

from typing import Any

from ...tracking.tracker import Tracker


def install_sharded_parameters(tracker: Tracker) -> None:
    """Note what ``fully_shard`` gathers parameters into: memory of collectives, not of parameters."""
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

    kind: Any = FSDPParam
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
