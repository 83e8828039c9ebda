"""The limit of a budget in bytes: its ``gib``, or the memory of the card that it names."""

from __future__ import annotations

from ..hardware.gpus import find_gpu
from .budget import Budget


def limit_of(budget: Budget) -> int | None:
    """The limit of the budget's metric on each GPU, in bytes; None without one."""
    return budget.limit_bytes if budget.gib is not None else capacity_of(budget)


def capacity_of(budget: Budget) -> int | None:
    """The memory of the named card for the budget's metric, in bytes; None if no card is named.

    The metric ``device`` includes the CUDA context; for the others it is subtracted.
    """
    if budget.gpu is None:
        return None
    gpu = find_gpu(budget.gpu)
    return gpu.total_bytes if budget.metric == "device" else gpu.usable_bytes
