"""States of optimizers that ranks send each other as bytes, of which only the shapes are known."""

from collections.abc import Callable
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
