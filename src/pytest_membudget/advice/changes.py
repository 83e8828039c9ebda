"""The changes that are tried for a test over its budget; ``worker.server.changes`` applies them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from ..components import (
    ACTIVATIONS,
    CACHED,
    GRADIENTS,
    INPUTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    ROUNDING,
    TEMPORARIES,
    WORKSPACES,
)
from ..memory_report import MemoryReport
from .trial import Excess, is_worth_it

#: What the allocator adds to requests: it changes with them.
_AROUND: Final = frozenset({ROUNDING, CACHED})
#: Names of fixtures and parameters that are a batch size.
BATCH_SIZES: Final = frozenset({
    "batch", "batch_size", "bs", "local_batch_size", "mbs", "micro_batch", "micro_batch_size", "microbatch",
    "per_device_batch_size", "per_device_train_batch_size", "train_batch_size",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One change to a test's body."""

    name: str
    lowers: frozenset[str]
    """The components that it can lower."""
    write: str
    """What to write; ``{}`` is replaced by what the run has changed."""
    needs: str | None = PARAMETERS
    """A component that must be there, or the change is not tried."""

    def most_saved_bytes(self, report: MemoryReport, component: str | None) -> int:
        """The most that it can save at the peak, of ``component`` or of the total."""
        if self.needs is not None and not report.components.get(self.needs):
            return 0
        held = {name: size for name, size in report.components.items() if name in self.lowers | _AROUND}
        return sum(held.values()) if component is None else held.get(component, 0)


HALF_BATCH: Final = Change(
    "half_batch", frozenset({ACTIVATIONS, INPUTS, TEMPORARIES, WORKSPACES}), "{}", needs=None
)
EXPANDABLE_SEGMENTS: Final = Change("expandable_segments", frozenset({CACHED}), "{}", needs=CACHED)
CHANGES: Final = (
    Change(
        "chunked_cross_entropy",
        frozenset({ACTIVATIONS, TEMPORARIES}),
        "steps.linear_cross_entropy for {}",
    ),
    Change("checkpointing", frozenset({ACTIVATIONS}), "{}"),
    HALF_BATCH,
    Change("fused", frozenset({TEMPORARIES}), "{}(..., fused=True)", needs=OPTIMIZER_STATES),
    Change("single_tensor", frozenset({TEMPORARIES}), "{}(..., foreach=False)", needs=OPTIMIZER_STATES),
    Change(
        "step_in_backward",
        frozenset({GRADIENTS, TEMPORARIES}),
        "steps.optimizer_in_backward(model, {}), no clipping",
        needs=GRADIENTS,
    ),
    Change("eight_bit_states", frozenset({OPTIMIZER_STATES}), "{}", needs=OPTIMIZER_STATES),
    EXPANDABLE_SEGMENTS,
)


def worth_trying(report: MemoryReport, excess: Excess, fixtures: Collection[str]) -> Iterator[Change]:
    """The changes that can save enough of what ``report`` is over its budget.

    ``fixtures``: the fixtures and parameters of the test, by name.
    """
    missing_bytes = excess.missing_bytes(report)
    for change in CHANGES:
        if change is HALF_BATCH and BATCH_SIZES.isdisjoint(fixtures):
            continue
        if is_worth_it(change.most_saved_bytes(report, excess.component), missing_bytes):
            yield change
