"""Which ranks of a test share a machine, and the host memory that they hold together."""

from __future__ import annotations

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


def host_bytes_of(report: MemoryReport) -> int:
    """What the rank of ``report`` holds in host memory at most."""
    return report.host.peak_bytes if report.host is not None else 0


def fullest_machine(reports: Sequence[MemoryReport], gpus: int, machine_gpus: int) -> Machine | None:
    """The machine whose ranks hold most in host memory; None without reports.

    A rank that has none among ``reports`` counts as the one that holds most: a bound, and exact where those
    that were estimated hold the same.
    """
    if not reports:
        return None
    by_rank = {report.rank: host_bytes_of(report) for report in reports}
    most = max(by_rank.values())
    firsts = range(0, gpus, machine_gpus)
    return max(
        (_machine(by_rank, most, first, min(first + machine_gpus, gpus)) for first in firsts), key=_host
    )


def _machine(by_rank: Mapping[int, int], most: int, first: int, end: int) -> Machine:
    return Machine(first, end - 1, sum(by_rank.get(rank, most) for rank in range(first, end)))


def _host(machine: Machine) -> int:
    return machine.host_bytes
