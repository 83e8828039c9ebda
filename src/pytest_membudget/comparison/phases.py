"""Which moment of two runs is compared, where their peaks are in different phases of the step."""

from __future__ import annotations

from ..memory_report import MemoryReport, PhasePeak
from ..results.comparison import MovedPeak

#: What findings compare.
Held = MemoryReport | PhasePeak


def same_phase(head: MemoryReport, base: MemoryReport) -> tuple[Held, Held]:
    """The peaks of ``head`` and ``base`` in the phase in which the larger one is.

    The reports themselves where one of them has no peak of that phase: metrics other than ``allocated``,
    formulas, steps without a backward.
    """
    phase = (head if head.peak_bytes > base.peak_bytes else base).phase
    pair = head.in_phase(phase), base.in_phase(phase)
    return (pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else (head, base)


def moved_peak(head: MemoryReport, base: MemoryReport) -> MovedPeak | None:
    """The peaks' phases, where they differ and one phase of both is compared."""
    now, before = same_phase(head, base)
    if head.phase == base.phase or now.phase != before.phase:
        return None
    return MovedPeak(head.phase, base.phase, now.phase, now.peak_bytes, before.peak_bytes)
