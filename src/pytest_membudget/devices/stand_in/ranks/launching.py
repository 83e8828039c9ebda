"""Where a rank is, and the environment variables that a launcher such as torchrun sets for it."""

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from ....hardware.machines import gpus_a_machine

#: As torchrun has it on one node (torch/distributed/run.py, 2.13: ``--master-port``, rdzv of one node).
_MASTER = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
#: By which a rank knows where it is.
PLACES: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK")
#: Called with the name of a variable, and the frame that asks for it.
Asked = Callable[[str, FrameType | None], None]


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


def watch_environment(read: Asked, sought: Asked = lambda name, frame: None) -> Callable[[], None]:
    """Call ``read`` with each variable that is read, and ``sought`` with one that is asked for otherwise.

    Returns what ends it.
    """
    own: Any = os.environ
    kind = type(own)

    class Environment(kind):  # type: ignore[misc, valid-type] # os.environ's own class, whatever it is
        """``os.environ`` that reports what is asked."""

        def __getitem__(self, key: str) -> str:
            try:
                value: str = super().__getitem__(key)
            except KeyError:
                sought(key, sys._getframe(1))
                raise
            read(key, sys._getframe(1))
            return value

        def __contains__(self, key: object) -> bool:
            sought(str(key), sys._getframe(1))
            return bool(super().__contains__(key))

    own.__class__ = Environment

    def end() -> None:
        if type(own) is Environment:
            own.__class__ = kind

    return end
