"""What limits the metric of a budget: its ``gib``, or the memory of the card that it names."""

from __future__ import annotations

from ..hardware.gpus import find_gpu
from .budget import Budget


def limit_of(budget: Budget) -> int | None:
    """What the budget's metric is limited to on each GPU, in bytes; None where nothing limits it."""
    return budget.limit_bytes if budget.gib is not None else capacity_of(budget)


def capacity_of(budget: Budget) -> int | None:
    """What the named card can hold of the budget's metric, in bytes; None where no card is named.

    ``device`` has the CUDA context in it, the other metrics leave room for it.
    """
    if budget.gpu is None:
        return None
    gpu = find_gpu(budget.gpu)
    return gpu.total_bytes if budget.metric == "device" else gpu.usable_bytes
