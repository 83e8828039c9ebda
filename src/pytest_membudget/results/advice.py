"""Advice: the changes that are tried for a test over its budget, and the runs that reduced its memory."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from ..budgets.budget import Budget
from ..budgets.verdict import Part, parts_of
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
from ..json_object import JsonObject
from ..memory_report import MemoryReport

#: Trials that save less than this share of the excess over the budget are not listed.
_LEAST_SHARE: Final = 0.01
#: What the allocator adds to requests: it changes with them.
_AROUND: Final = frozenset({ROUNDING, CACHED})
#: Names of fixtures and parameters that are a batch size.
BATCH_SIZES: Final = frozenset({
    "batch", "batch_size", "bs", "local_batch_size", "mbs", "micro_batch", "micro_batch_size", "microbatch",
    "per_device_batch_size", "per_device_train_batch_size", "train_batch_size",
})  # fmt: skip


def excess_of(budget: Budget, report: MemoryReport, *, ran_out: bool) -> Part | None:
    """The part of ``budget`` that ``report`` is over; None if only host memory is.

    ``ran_out``: the test ran out of the named card's memory; ``report`` is of a run without that limit.
    """
    if ran_out and budget.capacity_bytes is not None:
        return Part("gib", "", budget.capacity_bytes, report)
    parts = parts_of(budget, [report])
    return next((part for part in parts if part.excess_bytes > 0 and part.argument != "held_gib"), None)


@dataclass(frozen=True, slots=True)
class Advice(JsonObject):
    """The changes that were tried for one test, and the figures."""

    required: ClassVar[tuple[str, ...]] = ("trials",)

    bytes: int
    """The figure without a change: the peak of the budget's metric, or the component that is over."""
    limit_bytes: int
    """The limit of that figure."""
    trials: Mapping[str, int | None] = field(default_factory=dict)
    """The figure with each change, by what to write, the largest saving first; then changes that were not
    tried because the time was up, by their titles: None."""

    @property
    def tried(self) -> dict[str, int]:
        """The figures."""
        return {write: size for write, size in self.trials.items() if size is not None}

    @property
    def untried(self) -> list[str]:
        """The titles of the others."""
        return [title for title, size in self.trials.items() if size is None]


def is_worth_it(saved_bytes: int, missing_bytes: int) -> bool:
    """Whether a saving is large enough to be listed for a test that is ``missing_bytes`` over its budget."""
    return saved_bytes > 0 and saved_bytes >= _LEAST_SHARE * missing_bytes


def savings_first(trials: Mapping[str, int], figure_bytes: int, missing_bytes: int) -> dict[str, int]:
    """The ``trials`` that save enough, the largest saving first; ``figure_bytes`` is without a change."""
    worth = [one for one in trials.items() if is_worth_it(figure_bytes - one[1], missing_bytes)]
    return dict(sorted(worth, key=lambda one: one[1]))


@dataclass(frozen=True, slots=True)
class Change:
    """One change to a test's body."""

    name: str
    title: str
    """The same in words."""
    lowers: frozenset[str]
    """The components that it can lower."""
    write: str = "{}"
    """What to write; ``{}`` is replaced by what the run has changed."""
    needs: str | None = PARAMETERS
    """A component that must be there, or the change is not tried."""

    def most_saved_bytes(self, part: Part) -> int:
        """The most that it can save of ``part`` at the peak."""
        held = part.report.components
        if self.needs is not None and not held.get(self.needs):
            return 0
        lowered = {name: size for name, size in held.items() if name in self.lowers | _AROUND}
        return lowered.get(part.of, 0) if part.of else sum(lowered.values())


HALF_BATCH: Final = Change(
    "half_batch",
    "half the batch",
    frozenset({ACTIVATIONS, INPUTS, TEMPORARIES, WORKSPACES}),
    needs=None,
)
EXPANDABLE_SEGMENTS: Final = Change(
    "expandable_segments", "expandable segments", frozenset({CACHED}), needs=CACHED
)
CHANGES: Final = (
    Change(
        "chunked_cross_entropy",
        "cross entropy in chunks",
        frozenset({ACTIVATIONS, TEMPORARIES}),
        "steps.linear_cross_entropy for {}",
    ),
    Change("checkpointing", "checkpointing", frozenset({ACTIVATIONS})),
    HALF_BATCH,
    Change("fused", "fused=True", frozenset({TEMPORARIES}), "{}(..., fused=True)", needs=OPTIMIZER_STATES),
    Change(
        "single_tensor",
        "foreach=False",
        frozenset({TEMPORARIES}),
        "{}(..., foreach=False)",
        needs=OPTIMIZER_STATES,
    ),
    Change(
        "step_in_backward",
        "the optimizer's step in the backward",
        frozenset({GRADIENTS, TEMPORARIES}),
        "steps.optimizer_in_backward(model, {}), no clipping",
        needs=GRADIENTS,
    ),
    Change(
        "eight_bit_states",
        "an optimizer with 8-bit states",
        frozenset({OPTIMIZER_STATES}),
        needs=OPTIMIZER_STATES,
    ),
    EXPANDABLE_SEGMENTS,
)


def worth_trying(excess: Part, fixtures: Collection[str]) -> Iterator[Change]:
    """The changes that can save enough of what is over the budget.

    ``fixtures``: the fixtures and parameters of the test, by name.
    """
    for change in CHANGES:
        if change is HALF_BATCH and BATCH_SIZES.isdisjoint(fixtures):
            continue
        if is_worth_it(change.most_saved_bytes(excess), excess.excess_bytes):
            yield change
