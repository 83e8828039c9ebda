"""DistributedDataParallel's buckets, which ProcessGroupNCCL's watchdog lets go of a while after their use.

Up to torch 2.14 it looks ten times a second (``kWatchdogThreadSleepMillis``, ProcessGroupNCCL.cpp, 2.13). A
step on a card takes longer than that; here it takes less, and whether the first buckets are still there when
the second ones are made would be left to chance.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d


def install_reducers() -> None:
    """Let buckets be made anew only once the watchdog has let go of what is done."""
    own: Any = dist
    kind = own.Reducer
    rebuild = kind._rebuild_buckets

    def rebuild_buckets(reducer: Any) -> Any:
        for group in tuple(c10d._world.pg_map):
            if _is_watched(group):
                group._wait_for_pending_works()
        return rebuild(reducer)

    kind._rebuild_buckets = rebuild_buckets


def _is_watched(group: Any) -> bool:
    """Whether cards are served by ProcessGroupNCCL; not by its successor, which lets go at once."""
    devices = [device for device in group._device_types if device.type == "cuda"]
    return any(type(group._get_backend(device)) is c10d.ProcessGroupNCCL for device in devices)
