"""What a failure proposes, in words: the changes that were tried."""

from __future__ import annotations

from ..advice.trial import Advice, Trial
from ..units import gib_text
from .causes import Code, signed_size


def title_of(advice: Advice) -> str:
    """The heading of a list of trials."""
    return f"What lowers it, from {gib_text(advice.figure_bytes)} (each was run with this test)"


def saved_text(trial: Trial, advice: Advice) -> str:
    """What ``trial`` saves, with a minus."""
    return signed_size(trial.bytes - advice.figure_bytes)


def trial_text(trial: Trial, advice: Advice, code: Code) -> str:
    """One trial in a line; ``code`` wraps what came from code."""
    figures = f"{gib_text(trial.bytes)} ({saved_text(trial, advice)})"
    return f"{code(trial.write)}: {figures}{_enough(trial, advice)}"


def _enough(trial: Trial, advice: Advice) -> str:
    return ", within" if trial.bytes <= advice.limit_bytes else ""


def untried_text(advice: Advice) -> str:
    """The changes that there was no time for; empty for none."""
    return f"Not tried, for want of time: {', '.join(advice.untried)}" if advice.untried else ""


def advice_lines(advice: Advice | None) -> list[str]:
    """The trials for a terminal, the largest saving first."""
    if advice is None or not (advice.trials or advice.untried):
        return []
    lines = [_line(trial, advice) for trial in advice.trials]
    untried = untried_text(advice)
    return ["", f"{title_of(advice)}:", *lines, *([f"  {untried}"] if untried else [])]


def _line(trial: Trial, advice: Advice) -> str:
    saved = saved_text(trial, advice)
    return f"  {gib_text(trial.bytes):>12}  {saved:>10}  {trial.write}{_enough(trial, advice)}"
