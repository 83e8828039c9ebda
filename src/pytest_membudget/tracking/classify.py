"""From what is known of a storage to its component."""

from __future__ import annotations

from bisect import bisect_left

from .. import components
from .ledger import Ledger
from .record import Phase, Record


def component_of(record: Record, ledger: Ledger) -> str:
    """The component that ``record`` belongs to.

    A role that was seen (parameter, gradient, optimizer state, ...) decides. Without one, what the
    forward made is an activation if it was still there when a backward took over, or when the outermost
    module call that made it had returned; and a temporary if not. A parameter that no gradient reached and
    no optimizer holds, in a test that trains, is a frozen one: a teacher run under ``no_grad``.
    What is made of gradients for the optimizer's step is a temporary.
    """
    if record.role == components.PARAMETERS and _was_left_untrained(record, ledger):
        return components.FROZEN_PARAMETERS
    if record.role is not None:
        return record.role
    if record.phase in (Phase.FORWARD, Phase.RECOMPUTE) and not record.for_update:
        if record.from_inputs:
            return components.INPUTS
        if _outlived_its_forward(record, ledger):
            return components.ACTIVATIONS
    return components.COLLECTIVES if record.collective else components.TEMPORARIES


def _was_left_untrained(record: Record, ledger: Ledger) -> bool:
    return not record.trained and _outlived_next_mark(record, ledger.marks[:1])


def _outlived_its_forward(record: Record, ledger: Ledger) -> bool:
    if _outlived_next_mark(record, ledger.marks):
        return True
    if record.root_call is None:
        return False
    end = ledger.root_call_ends.get(record.root_call)
    if end is None:  # the call did not return: it was cut short, by an error perhaps
        return record.death is None
    return record.death is None or record.death > end


def _outlived_next_mark(record: Record, marks: list[int]) -> bool:
    index = bisect_left(marks, record.birth)
    if index == len(marks):
        return False
    return record.death is None or record.death > marks[index]
