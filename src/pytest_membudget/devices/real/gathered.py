"""Records FSDP2's all-gathered parameters, and their gradients before they are reduced.

The gathered tensors are kept, and their storages resized: filled before each all-gather, emptied after use.
The unsharded parameters are in no module, so hooks on modules do not see their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .collectives import NoteCollective

#: Called with a parameter and its gradient.
SeeGradient = Callable[[torch.Tensor, torch.Tensor], object]


def install_gathered(note_collective: NoteCollective, see_gradient: SeeGradient) -> None:
    """Record both whenever they are allocated, for the rest of the process."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param, _fsdp_param_group

    kind: Any = _fsdp_param.FSDPParam
    group_kind: Any = _fsdp_param_group.FSDPParamGroup
    allocate, reshard = kind.alloc_all_gather_outputs, kind.to_sharded_post_forward
    reduce = group_kind.post_backward

    def alloc_all_gather_outputs(parameter: Any) -> None:
        allocate(parameter)
        for output in parameter.all_gather_outputs:
            note_collective(output, kept=True)

    def to_sharded_post_forward(parameter: Any, *args: Any, **kwargs: Any) -> None:
        reshard(parameter, *args, **kwargs)
        note_collective(parameter._sharded_post_forward_param_data, kept=True)

    def post_backward(group: Any, *args: Any, **kwargs: Any) -> Any:
        for parameter in group.fsdp_params:
            whole = getattr(parameter, "_unsharded_param", None)
            if whole is not None and whole.grad is not None:
                see_gradient(whole, whole.grad)
        return reduce(group, *args, **kwargs)

    kind.alloc_all_gather_outputs = alloc_all_gather_outputs
    kind.to_sharded_post_forward = to_sharded_post_forward
    group_kind.post_backward = post_backward
