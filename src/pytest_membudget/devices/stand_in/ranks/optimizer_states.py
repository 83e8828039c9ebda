"""States of optimizers that ranks send each other, of which only the shapes are known."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist

from .broadcasts import Broadcasts
from .objects import packed, unpacked


def install_states(broadcasts: Broadcasts) -> Callable[[Any], None]:
    """What lets ``ZeroRedundancyOptimizer``, of the module it is given, collect the states of all ranks."""

    def install(module: Any) -> None:
        send = module._broadcast_object

        def broadcast(obj: Any, src_rank: int, group: Any, device: Any) -> Any:
            root, sent = dist.get_group_rank(group, src_rank), [packed(obj, leaves_data=True)]
            if dist.get_rank() == src_rank:
                broadcasts.objects(group, root, sent)
                return send(obj, src_rank, group, device)
            sent = [None]
            broadcasts.objects(group, root, sent)
            # one that has not run yet will, and then this rank again
            return _received(sent[0], src_rank, group, device) if sent[0] is not None else obj

        module._broadcast_object = broadcast

    return install


def _received(sent: bytes, source: int, group: Any, device: Any) -> Any:
    """As ``_broadcast_object`` of torch/distributed/optim/zero_redundancy_optimizer.py does (2.13)."""
    length = torch.zeros(1, dtype=torch.long, device=device)
    dist.broadcast(length, src=source, group=group)
    data = torch.empty([int(length.item())], dtype=torch.uint8, device=device)
    dist.broadcast(data, src=source, group=group)
    data.cpu()
    return unpacked(sent, device)


def install_shares(module: Any) -> None:
    """Let FSDP1, in ``torch.distributed.fsdp._optim_utils``, collect the states of each rank's share.

    With ``use_orig_params`` a rank has states of its part of a unit alone. Who has which follows from the
    unit's flat parameter; the states of others are as this rank's own are.
    """
    keys_of, collect = module._map_param_key_to_optim_keys, module._allgather_orig_param_states
    own: dict[str, Any] = {}

    def all_keys(
        states: Any, group: Any, parameters: Any, names: Any, units: Any, merge_keys: bool = False
    ) -> Any:
        keys, own_keys = keys_of(states, group, parameters, names, units, merge_keys)
        own.update(next(iter(states["state"].values()), {}))
        if merge_keys and own:
            trained = [tuple(names[one]) for one in parameters.values() if one.requires_grad]
            added = {module._OptimStateKey(one, True) for one in trained if one[0] in units}
            keys = sorted({*keys, *added})
        return keys, own_keys

    def collected(unit: Any, gathered: list[Any], *others: Any) -> Any:
        mine, any_state = gathered[0], module._allgather_state_info(unit.state, {"": own})[0][""]
        for rank in {*range(len(gathered))} - {unit.state.rank}:
            sizes = _shares(unit.handle.flat_param, rank)
            gathered[rank] = {
                name: _resized(one if one.tensors else any_state, sizes[unit.param_indices[name]])
                for name, one in mine.items()
            }
        return collect(unit, gathered, *others)

    module._map_param_key_to_optim_keys, module._allgather_orig_param_states = all_keys, collected


def _shares(flat: Any, rank: int) -> list[int]:
    """How many numbers of each parameter in the ``flat`` one lie on ``rank``."""
    size = flat._sharded_size.numel()
    numbers = zip(flat._numels_with_padding, flat._is_padding_mask, strict=True)
    ends = zip(accumulate(flat._numels_with_padding), numbers, strict=True)
    return [
        max(0, min(end, (rank + 1) * size) - max(end - number, rank * size))
        for end, (number, is_padding) in ends
        if not is_padding
    ]


def _resized(info: Any, size: int) -> Any:
    """What torch says of a parameter's states, of ``size`` numbers; nothing where there are none."""
    if not size:
        return type(info)({}, {}, {})
    tensors = {name: one._replace(shape=torch.Size([size])) for name, one in info.tensors.items()}
    return replace(info, tensors=tensors)
