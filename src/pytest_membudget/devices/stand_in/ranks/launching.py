"""Where a rank is, and the environment variables that a launcher such as torchrun sets for it."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from ....hardware.machines import gpus_a_machine

#: As torchrun has it on one node (torch/distributed/run.py, 2.13: ``--master-port``, rdzv of one node).
_MASTER = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@dataclass(frozen=True, slots=True)
class Place:
    """The rank that this process is, and its GPU among those of its node."""

    rank: int
    world_size: int
    local_rank: int
    node_gpus: int


def place_of(rank: int, world_size: int, environ: Mapping[str, str]) -> Place:
    """Where ``rank`` is: nodes of 8 GPUs, or of as many as LOCAL_WORLD_SIZE says.

    Raises ``ValueError`` for a rank that is not there.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is none of {world_size}, from 0 on")
    node_gpus = gpus_a_machine(world_size, environ)
    return Place(rank, world_size, rank % node_gpus, node_gpus)


def set_variables(place: Place, environ: MutableMapping[str, str]) -> None:
    """Set what torchrun sets for the rank; the address is kept where there is one."""
    environ.update({
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_WORLD_SIZE": str(min(place.node_gpus, place.world_size)),
        "GROUP_RANK": str(place.rank // place.node_gpus),
    })  # fmt: skip
    for name, value in _MASTER.items():
        environ.setdefault(name, value)
    if place.world_size == 1:  # nobody else has to find it, and several tests may run at once
        environ["MASTER_PORT"] = "0"
