"""Which process groups have communicated, and with whom: what NCCL takes memory for."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Group:
    """A process group that has communicated: its size, and the ranks it sends to and receives from."""

    size: int
    peers: set[int] = field(default_factory=set)


class Groups:
    """The process groups of a run, by name."""

    def __init__(self) -> None:
        self.seen: dict[str, Group] = {}

    def note(self, group: Any) -> Group:
        """``group`` has communicated."""
        return self.seen.setdefault(group.group_name, Group(group.size()))

    def note_operator(self, group: Any, operator: str, peer: Any) -> None:
        """It has run ``operator`` of ``c10d``; ``peer`` is the argument behind the group."""
        seen = self.note(group)
        if operator in ("send", "recv_"):
            seen.peers.add(int(peer))
        elif operator.startswith("alltoall"):
            seen.peers.update(set(range(group.size())) - {group.rank()})


def check_devices(group: Any, devices: Set[str]) -> None:
    """As ``ProcessGroup::getBackend`` (torch/csrc/distributed/c10d/ProcessGroup.cpp, 2.13)."""
    served = {device.type for device in group._device_types}
    for device in devices - served:
        raise RuntimeError(f"No backend type associated with device type {device}")
