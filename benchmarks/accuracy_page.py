"""Two pages of estimates and published figures: a long one with every case, and its summary for the docs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .accuracy_runs import CasesRun
from .comparison import Comparison, summarize
from .published_figures import UNITS, Published

_HEAD = """\
# How exact the estimates are

Made by `python -m benchmarks.accuracy` with torch {torch}; convolutions are planned by {cudnn}.

Each case is a configuration whose peak somebody measured on a GPU and published; a test in `benchmarks/cases`
does the same without a GPU. *Ratio* is estimate / measured: below 1 is too little.
*Equal* means within 0.1%, the precision of most published figures.

`python -m benchmarks.accuracy --report report.json` compares the estimates of any report with the
measurements in it, `--published FILE` with figures of your own.
"""
_DIGITS = 3


def accuracy_page(
    comparisons: Sequence[Comparison],
    left_out: Iterable[Published],
    troubles: Iterable[str],
    run: CasesRun,
    notes: Iterable[str] = (),
) -> str:
    """The whole page."""
    families = list(dict.fromkeys(comparison.family for comparison in comparisons))
    head = _HEAD.format(torch=run.torch, cudnn=run.cudnn)
    parts = [head, "## All together\n", _summary_table(comparisons)]
    for family in families:
        own = [comparison for comparison in comparisons if comparison.family == family]
        parts.append(f"## {family[:1].upper()}{family[1:]}\n")
        parts.append(case_table(own))
        parts.append(_sources(own))
    parts += [_noted(list(notes)), _failed(list(troubles)), _not_recreated(list(left_out))]
    return "\n".join(part for part in parts if part)


def accuracy_summary(comparisons: Sequence[Comparison], run: CasesRun) -> str:
    """The summary in the docs: a row for each family."""
    table = _summary_table(comparisons, ("family",), ("below", "within 0.1%", "above"))
    return f"Run with torch {run.torch}, {run.cudnn}.\n\n{table}"


def _summary_table(
    comparisons: Sequence[Comparison],
    names: Sequence[str] = ("family", "metric"),
    shares: Sequence[str] = ("under", "equal", "over"),
) -> str:
    """A row for each combination of what ``names`` name."""
    lines = [
        f"| {' | '.join(names)} | figures | median ratio | worst ratio | {' | '.join(shares)} |",
        f"|{'---|' * len(names)}--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for comparison in (one for one in comparisons if not one.is_component):
        groups.setdefault(tuple(_words(getattr(comparison, name)) for name in names), []).append(comparison)
    for cells, group in groups.items():
        lines.append(f"| {' | '.join(cells)} | {_figures(group)} |")
    lines.append(f"| {' | '.join(['**all**', *[''] * (len(names) - 1)])} | {_figures(comparisons)} |")
    return "\n".join(lines) + "\n"


def _figures(comparisons: Sequence[Comparison]) -> str:
    """The cells of a row of the summary."""
    summary = summarize(comparisons)
    shares = " | ".join(f"{share:.0%}" for share in (summary.under, summary.equal, summary.over))
    return f"{summary.count} | {summary.median:.4f} | {summary.worst:.4f} | {shares}"


def case_table(comparisons: Iterable[Comparison]) -> str:
    """A row a figure."""
    lines = [
        "| case | metric | estimate | measured | ratio | what explains the rest |",
        "|---|---|--:|--:|--:|---|",
    ]
    for one in comparisons:
        sizes = (_size(one.estimate_bytes, one.unit), _size(one.measured_bytes, one.unit))
        cells = (_cell(one.case), _words(one.metric), *sizes, f"{one.ratio:.4f}", _cell(one.explained))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _sources(comparisons: Iterable[Comparison]) -> str:
    cases: dict[tuple[str, str], list[str]] = {}
    for one in comparisons:
        names = cases.setdefault((one.source, one.setup), [])
        if one.case not in names:
            names.append(one.case)
    lines = [
        f"- {', '.join(names)}: {source} ({setup})" for (source, setup), names in cases.items() if source
    ]
    return "\n".join(["<details><summary>Where they were published</summary>\n", *lines, "\n</details>\n"])


def _noted(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return (
        "\n".join(["## Where captured and estimated histories differ\n", *(f"- {note}" for note in notes)])
        + "\n"
    )


def _failed(troubles: Sequence[str]) -> str:
    if not troubles:
        return ""
    return "\n".join(["## Without a figure\n", *(f"- {trouble}" for trouble in troubles)]) + "\n"


def _not_recreated(entries: Sequence[Published]) -> str:
    if not entries:
        return ""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        reasons.setdefault(entry.not_recreated, []).append(entry.id)
    lines = [f"- {reason}: {', '.join(ids)}" for reason, ids in reasons.items()]
    return "\n".join(["## Published, and not re-created\n", *lines]) + "\n"


def _size(size_bytes: float, unit: str) -> str:
    return f"{size_bytes / UNITS[unit]:,.{_DIGITS}f} {unit}"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()
