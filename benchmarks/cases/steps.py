"""The peak of one step after warm-up steps, as a recorded history shows it."""

from __future__ import annotations

from collections.abc import Callable

import torch

#: pytest's own fixture; a number of bytes by this way stands beside the estimate in the report
Record = Callable[[str, object], None]


def start_step() -> None:
    """From here on a peak counts: recordings began after warm-up steps."""
    torch.cuda.reset_peak_memory_stats()


def record_step(record: Record) -> None:
    """The peaks since ``start_step``: what a history of that step shows."""
    record("step_allocated_bytes", torch.cuda.max_memory_allocated())
    record("step_reserved_bytes", torch.cuda.max_memory_reserved())
