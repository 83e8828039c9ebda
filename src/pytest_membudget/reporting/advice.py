"""Text of the changes that were tried for a test over its budget."""

from __future__ import annotations

from typing import Final

from ..advice.trial import Advice, Trial
from ..units import gib_text
from .causes import Code, signed_size
from .terminal.fitting import folded

_STEPS: Final = "steps is pytest_membudget.steps"
#: Where what to write begins, right of two sizes.
_COLUMN: Final = 26


def title_of(advice: Advice) -> str:
    """The heading of a list of trials."""
    return f"What reduces it from {gib_text(advice.figure_bytes)} (each change was run)"


def trial_text(trial: Trial, advice: Advice, code: Code) -> str:
    """One trial in a line; ``code`` formats text from the user's code."""
    figures = f"{gib_text(trial.bytes)} ({signed_size(trial.bytes - advice.figure_bytes)})"
    return f"{code(trial.write)}: {figures}{_enough(trial, advice)}"


def _enough(trial: Trial, advice: Advice) -> str:
    return ", within" if trial.bytes <= advice.limit_bytes else ""


def advice_lines(advice: Advice | None, width: int) -> list[str]:
    """The trials for a terminal of ``width``, the largest saving first; empty if there are none."""
    if advice is None or not (advice.trials or advice.untried):
        return []
    lines = folded((_line(trial, advice) for trial in advice.trials), width, _COLUMN)
    uses_steps = any("steps." in trial.write for trial in advice.trials)
    notes = [f"  {_STEPS}"] if uses_steps else []
    if advice.untried:
        notes.append(f"  Not tried, the time limit was reached: {', '.join(advice.untried)}")
    return ["", f"{title_of(advice)}:", *lines, *notes]


def _line(trial: Trial, advice: Advice) -> str:
    saved = signed_size(trial.bytes - advice.figure_bytes)
    return f"  {gib_text(trial.bytes):>12}  {saved:>10}  {trial.write}{_enough(trial, advice)}"
