"""What each knob would save of a traced peak, computed from its components, without a further trace.

A trace knows what there was at the peak, not what there would be: another moment may become the peak, so
each figure is the most that the knob can save.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..components import ACTIVATIONS, GRADIENTS, INPUTS, OPTIMIZER_STATES, TEMPORARIES
from ..memory_report import MemoryReport

_FOREACH = "aten::_foreach_"
#: bitsandbytes' AdamW8bit and torchao's: a byte an element and state, and fp32 scales a block of 256.
_EIGHT_BITS = 1 + 4 / 256


@dataclass(frozen=True, slots=True)
class Saving:
    """One knob, and the most that it can save."""

    name: str
    bytes: int


def savings_of(report: MemoryReport) -> tuple[Saving, ...]:
    """The knobs that can lower the peak of ``report``, a traced one; cheapest in speed first."""
    return tuple(saving for saving in _savings(report) if saving.bytes > 0)


def _savings(report: MemoryReport) -> Iterator[Saving]:
    sizes, holders = Counter(dict(report.components)), report.holders
    lists = [
        holder
        for holder in holders
        if holder.component == TEMPORARIES and holder.operator.startswith(_FOREACH)
    ]
    yield Saving("fused=True, or foreach=False", sum(holder.bytes for holder in lists))
    # two bytes an element is the least that an unquantised state has
    yield Saving("8-bit optimizer states", int(sizes[OPTIMIZER_STATES] * (1 - _EIGHT_BITS / 2)))
    gradients = [holder.bytes // holder.count for holder in holders if holder.component == GRADIENTS]
    if gradients and sizes[OPTIMIZER_STATES]:
        yield Saving("optimizer step in backward", sizes[GRADIENTS] - max(gradients))
    if sizes[GRADIENTS] or sizes[OPTIMIZER_STATES]:
        yield Saving("half the micro-batch, accumulated twice", (sizes[ACTIVATIONS] + sizes[INPUTS]) // 2)
        yield Saving("full activation checkpointing", sizes[ACTIVATIONS])
        yield Saving("twice the GPUs, with FSDP2", _sharded(sizes) // 2)
        yield Saving("CPU offload of optimizer states", sizes[OPTIMIZER_STATES])


def _sharded(sizes: Mapping[str, int]) -> int:
    return sum(sizes[name] for name in ("parameters", "frozen_parameters", GRADIENTS, OPTIMIZER_STATES))
