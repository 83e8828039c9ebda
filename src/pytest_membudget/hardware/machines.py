"""Which ranks of a test share a machine, and the host memory that they hold together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..memory_report import MemoryReport

#: GPUs of a machine by default: those of the usual server with a switch between its cards.
GPUS_A_MACHINE = 8
_LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"


@dataclass(frozen=True, slots=True)
class Machine:
    """The host memory of the ranks of one machine: the sum of their peaks, each at its own moment."""

    first_rank: int
    last_rank: int
    host_bytes: int


def gpus_a_machine(gpus: int, environment: Mapping[str, str]) -> int:
    """How many of ``gpus`` ranks are on one machine: LOCAL_WORLD_SIZE, or up to 8."""
    written = environment.get(_LOCAL_WORLD_SIZE, "")
    size = int(written) if written.isascii() and written.isdigit() else 0
    return min(size or GPUS_A_MACHINE, gpus)


def fullest_machine(reports: Sequence[MemoryReport], gpus: int, machine_gpus: int) -> Machine | None:
    """The machine whose ranks hold most in host memory; None without reports.

    A rank that has none among ``reports`` counts as the one that holds most: a bound, and exact where those
    that were estimated hold the same.
    """
    if not reports:
        return None
    by_rank = {one.rank: one.host_bytes for one in reports}
    most = max(by_rank.values())
    machines = []
    for first in range(0, gpus, machine_gpus):
        ranks = range(first, min(first + machine_gpus, gpus))
        machines.append(Machine(first, ranks[-1], sum(by_rank.get(rank, most) for rank in ranks)))
    return max(machines, key=lambda machine: machine.host_bytes)
