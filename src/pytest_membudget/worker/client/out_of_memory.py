"""Advice for a test that runs out of memory, by the components that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...components import (
    ACTIVATIONS,
    CACHED,
    FROZEN_PARAMETERS,
    GRADIENTS,
    INPUTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    TEMPORARIES,
)
from ...memory_report import MemoryReport
from ...units import gib_text

#: Components with at least this share of allocated memory get advice.
_SHARE: Final = 0.2
_ADVICE: Final[Mapping[str, str]] = {
    PARAMETERS: "shard them (FSDP2), keep them in bfloat16, or train adapters",
    FROZEN_PARAMETERS: "quantise them, shard them (FSDP2), or offload them to the host",
    GRADIENTS: "step the optimizer in backward, or shard them (FSDP2)",
    OPTIMIZER_STATES: "shard them (FSDP2, ZeRO), keep them in 8 bits, or offload them to the host",
    ACTIVATIONS: "checkpoint layers (torch.utils.checkpoint), or take a smaller micro-batch and accumulate "
    "gradients",
    INPUTS: "move a smaller micro-batch to the card at a time",
    TEMPORARIES: "compute in smaller pieces: a loss by chunks, an optimizer with foreach=False or fused=True",
    CACHED: "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
}


def advice_text(reports: Sequence[MemoryReport]) -> str:
    """Lines on the large components of the largest of ``reports``: sizes, and what would help."""
    report = max(reports, key=lambda one: one.peak_bytes, default=None)
    if report is None or not report.peak_bytes:
        return ""
    largest = sorted(report.components.items(), key=lambda pair: -pair[1])
    lines = [
        f"  {name} ({gib_text(size)}): {_ADVICE[name]}"
        for name, size in largest
        if size >= _SHARE * report.peak_bytes and name in _ADVICE
    ]
    return "\n".join(["What would help:", *lines]) if lines else ""
