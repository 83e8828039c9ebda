"""The figures of tests over the commits of the lock file, as Markdown: a bar for each commit."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...git_command import run_git
from ...results.comparison import LOCK_FILE
from ...results.test_result import TestResult
from ...units import gib_text
from .escaping import NO_BREAK, NO_BREAK_DASH, markdown_code

#: Most commits of a curve, and most curves.
COMMITS: Final = 30
_CURVES: Final = 20
_BARS: Final = "▁▂▃▄▅▆▇█"


def curves(folder: Path, results: Sequence[TestResult]) -> str:
    """A table with a curve for each of ``results`` that has changed; empty where none has.

    ``folder``: of the lock file, in a git checkout. A curve ends with the figure of the result.
    """
    history = [*_history(folder)]
    rows = [row for result in results if (row := _row(result, history))]
    if not rows:
        return ""
    left = f"\n\n_{len(rows) - _CURVES} more have changed._" if len(rows) > _CURVES else ""
    head = (f"| over the commits of {LOCK_FILE} | first | now | test |", "| :-- | --: | --: | :-- |")
    return "\n".join([*head, *rows[:_CURVES]]) + left


def _history(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The day and the entries of each commit of the lock file, the oldest first."""
    import yaml

    log = run_git(folder, "log", f"-n{COMMITS}", "--reverse", "--format=%h %cs", "--", LOCK_FILE)
    for line in log.text.splitlines() if log.code == 0 else ():
        commit, _, day = line.partition(" ")
        shown = run_git(folder, "show", f"{commit}:./{LOCK_FILE}")
        try:
            entries = yaml.load(shown.text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))["tests"]
        except (yaml.YAMLError, TypeError, KeyError):  # it was removed, or has a conflict
            continue
        if isinstance(entries, dict):
            yield day, entries


def _row(result: TestResult, history: Sequence[tuple[str, dict[str, Any]]]) -> str:
    entries = [(day, tests[result.nodeid]) for day, tests in history if result.nodeid in tests]
    # what a test may take until a day is no figure of it
    recorded = [(day, one) for day, one in entries if isinstance(one, dict) and "until" not in one]
    points = [(day, one["bytes"]) for day, one in recorded if type(one.get("bytes")) is int]
    if result.figure is None or not points:
        return ""
    sizes = [*(size for _, size in points), result.figure.peak_bytes]
    if len(set(sizes)) == 1:
        return ""
    lowest, highest = min(sizes), max(sizes)
    steps = len(_BARS) - 1
    bars = "".join(_BARS[round((size - lowest) / (highest - lowest) * steps)] for size in sizes)
    ends = (f"{gib_text(sizes[0])} on {points[0][0].replace('-', NO_BREAK_DASH)}", gib_text(sizes[-1]))
    first, now = (text.replace(" ", NO_BREAK) for text in ends)
    return f"| {bars} | {first} | {now} | {markdown_code(result.nodeid)} |"
