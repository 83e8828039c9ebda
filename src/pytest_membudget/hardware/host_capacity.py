"""Processors and free memory of this machine, as far as this process may use them."""

import math
import os
from collections.abc import Mapping
from pathlib import Path

_CONTROL_GROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
#: How many workers pytest-xdist has started: it sets this in each of them.
_XDIST_WORKERS = "PYTEST_XDIST_WORKER_COUNT"


def processors(environment: Mapping[str, str], group: Path = _CONTROL_GROUP) -> int:
    """How many this process may keep busy, one at least: its affinity, its control group's quota, and its
    share of them among pytest-xdist's workers.

    ``cpu.max``: Documentation/admin-guide/cgroup-v2.rst, Linux 6.12.
    """
    count = len(os.sched_getaffinity(0))
    quota, _, period = _text(group / "cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        count = min(count, math.ceil(int(quota) / int(period)))
    workers = environment.get(_XDIST_WORKERS, "")
    if workers.isdigit() and int(workers):
        count //= int(workers)
    return max(1, count)


def free_bytes(meminfo: Path = _MEMINFO, group: Path = _CONTROL_GROUP) -> float:
    """Host memory that can be had without swapping; infinite where the system does not say.

    The control group's own limit counts too: ``memory.max`` without what is in use, save file pages that can
    go at once.
    """
    words = _fields(meminfo, ":").get("MemAvailable", "").split()
    free = int(words[0]) * 1024 if words and words[0].isdigit() else math.inf
    limit, current = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
    if limit.isdigit() and current.isdigit():
        files = _fields(group / "memory.stat", " ").get("inactive_file", "0").strip()
        reclaimable = int(files) if files.isdigit() else 0
        free = min(free, int(limit) - int(current) + reclaimable)
    return free


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _fields(path: Path, separator: str) -> Mapping[str, str]:
    """The lines of a file of names and values."""
    parted = (line.partition(separator) for line in _text(path).splitlines())
    return {name: value for name, _, value in parted}
