"""Text for causes of a figure or a change: a holder, or a finding of the comparison with the base."""

from __future__ import annotations

from collections.abc import Callable

from ..components import TENSOR_COMPONENTS
from ..memory_report import Holder
from ..results.comparison import ELSEWHERE, OTHERS, Change, Comparison
from ..units import gib_text

Cause = Holder | Change
#: Escapes text that came from code, for a format.
Code = Callable[[str], str]


def signed_size(size_bytes: int) -> str:
    """``size_bytes`` with its unit; growth begins with ``+``."""
    return f"{'+' if size_bytes > 0 else ''}{gib_text(size_bytes)}"


def signed_growth(comparison: Comparison) -> str:
    """The growth since the base, and its share of the base's figure."""
    growth_bytes, base_bytes = comparison.growth_bytes, comparison.base_bytes
    share = f" ({growth_bytes / base_bytes:+.1%})" if growth_bytes and base_bytes else ""
    return f"{signed_size(growth_bytes)}{share}"


def cause_text(cause: Cause, code: Code) -> str:
    """The size of ``cause`` and its description; ``code`` escapes text that came from code."""
    size = signed_size(cause.bytes) if isinstance(cause, Change) else gib_text(cause.bytes)
    return f"{size} {described(cause, code)}"


def described(cause: Cause, code: Code) -> str:
    """The description of ``cause``, without its size."""
    if isinstance(cause, Change) and cause.component == OTHERS:
        return "in smaller changes"
    of = f" of {code(cause.module)}" if cause.module and cause.module != ELSEWHERE else ""
    times = f" x{cause.count}" if isinstance(cause, Holder) and cause.count > 1 else ""
    return f"{cause.component}{of}{times}{_where(cause, code)}"


def _where(cause: Cause, code: Code) -> str:
    operator = f" ({code(cause.operator)})" if cause.operator else ""
    if isinstance(cause, Holder):
        return f" {_at(cause.location, code)}{operator}"
    if cause.module == ELSEWHERE:
        return " outside the largest holders" if cause.component in TENSOR_COMPONENTS else ""
    if cause.largest_bytes is not None:
        largest = signed_size(cause.largest_bytes)
        return f" in {cause.lines} lines, the largest {largest} {_moved(cause, code)}{operator}"
    return f" {_moved(cause, code)}{operator}"


def _moved(change: Change, code: Code) -> str:
    """The line now, and at the base if it was another."""
    location, before = change.location, change.base_location
    if not location and before:
        return f"no longer at {code(before)}"
    was = f" (was {code(before)})" if before and before != location else ""
    return f"{_at(location, code)}{was}"


def _at(location: str | None, code: Code) -> str:
    return f"at {code(location)}" if location else "at no line of Python"


def change_lines(comparison: Comparison) -> list[str]:
    """The rows that explain the growth since the base, for a terminal."""
    rows = [f"  {signed_size(change.bytes):>12}  {described(change, str)}" for change in comparison.findings]
    return [*rows, *filter(None, [input_text(comparison)])]


def input_text(comparison: Comparison) -> str:
    """The sentence for growth that larger inputs explain; empty if they do not."""
    factor = comparison.input_factor
    if factor is None:
        return ""
    grew, kind = ("grew", "larger batch or longer") if factor > 1 else ("shrank", "smaller batch or shorter")
    return (
        f"Inputs are {factor:.3g} times as large, and what is computed from them {grew} with them: "
        f"a {kind} sequence."
    )
