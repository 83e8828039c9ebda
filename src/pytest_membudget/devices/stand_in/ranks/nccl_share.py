"""What NCCL takes on the rank's card for the process groups that have communicated."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....caveats import NCCL, WORST_CASE, Caveat
from ....hardware.gpus import Gpu
from ....hardware.machines import GPUS_A_MACHINE
from ....hardware.nccl import Communicator, nccl_memory
from ....units import gib_text


@dataclass(slots=True)
class Group:
    """A process group that has communicated: its size, and the ranks it sends to and receives from."""

    size: int
    peers: set[int] = field(default_factory=set)


def note_operator(groups: dict[str, Group], group: Any, operator: str, peer: Any) -> None:
    """``group`` of ``groups``, by name, has run ``operator`` of ``c10d``.

    ``peer`` is the argument behind the group.
    """
    seen = groups.setdefault(group.group_name, Group(group.size()))
    if operator in ("send", "recv_"):
        seen.peers.add(int(peer))
    elif operator.startswith("alltoall"):
        seen.peers.update(set(range(group.size())) - {group.rank()})


class NcclShare(NamedTuple):
    """NCCL's bytes, and what they rest on."""

    size_bytes: int = 0
    caveats: tuple[Caveat, ...] = ()


def nccl_share(gpu: Gpu, groups: Iterable[Group], metric: str) -> NcclShare:
    """The most that NCCL takes on ``gpu`` for ``groups``; 0 with a note where its channels are not known.

    Only a figure of ``metric`` "device" rests on it, and says so.
    """
    seen = list(groups)
    if not seen:
        return NcclShare()
    communicators = [
        Communicator(min(group.size, GPUS_A_MACHINE), min(len(group.peers), GPUS_A_MACHINE - 1))
        for group in seen
    ]
    memory = nccl_memory(gpu, communicators)
    if metric != "device":
        return NcclShare(memory.most_bytes if memory is not None else 0)
    if memory is None:
        missing = f"NCCL's buffers on {gpu.name}: how it joins such cards is not known"
        return NcclShare(0, (Caveat(NCCL, missing),))
    text = (
        f"NCCL takes {gib_text(memory.most_bytes)} for {len(seen)} communicator"
        f"{'s' if len(seen) > 1 else ''}, the most that its formulas give; the least is "
        f"{gib_text(memory.least_bytes)}"
    )
    caveats = [Caveat(WORST_CASE, text)]
    if any(group.size > GPUS_A_MACHINE for group in seen):
        network = "NCCL's buffers for the network between nodes: counted as within one of 8 GPUs"
        caveats.append(Caveat(NCCL, network))
    return NcclShare(memory.most_bytes, tuple(caveats))
