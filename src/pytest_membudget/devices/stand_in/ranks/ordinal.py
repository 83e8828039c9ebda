"""Which GPU of its node the virtual device is: cuda:0 of one, or cuda:LOCAL_RANK where a test has ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..values.refusals import note_refusal

_Real = torch.device


@dataclass(frozen=True, slots=True)
class Place:
    """The rank that this process is, and its GPU among those of its node."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    node_gpus: int = 1


_place = [Place()]


def place() -> Place:
    """Where this process is."""
    return _place[0]


def take_place(new: Place) -> None:
    """From here on this process is that rank."""
    _place[0] = new


def own_index() -> int:
    """The virtual device's number among the node's GPUs: the current device of this process."""
    return _place[0].local_rank


def own_device() -> torch.device:
    """The virtual device by its number."""
    return _Real("cuda", _place[0].local_rank)


def index_of(device: object) -> int | None:
    """The number in a device, however it is given; None for the current one."""
    if isinstance(device, str):
        device = torch.device(device)
    index = device.index if isinstance(device, _Real) else device
    return index if isinstance(index, int) else None


def check_exists(device: object) -> None:
    """Raise as CUDA does where ``device`` is a GPU that the machine does not have."""
    index, here = index_of(device), _place[0]
    if index is not None and index >= here.node_gpus:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: cuda:{index} is asked for, and the virtual device that "
            f"budgets are estimated on has {here.node_gpus}, from cuda:0 on"
        )


def check_ordinal(device: object) -> None:
    """Raise where ``device`` is not this rank's GPU: one that the machine has not, or another rank's."""
    check_exists(device)
    index, here = index_of(device), _place[0]
    if index is not None and index not in (here.local_rank, -1):
        reason = (
            f"cuda:{index} is the GPU of another rank: rank {here.rank} of {here.world_size} has "
            f'cuda:{here.local_rank} of its node; write device="cuda", which is the rank\'s own, or the '
            "number in LOCAL_RANK"
        )
        note_refusal(reason)
        raise RuntimeError(reason)
