"""docs/accuracy.md: estimates beside published figures, for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .comparison import Comparison, Summary, summarize
from .published_figures import UNITS, Published

_HEAD = """\
# How exact the estimates are

Made by `python -m benchmarks.accuracy` with torch {torch} and {cudnn}.
Each case is a configuration whose peak somebody measured on a GPU and published; a test in `benchmarks/cases`
does the same on the virtual device, without a GPU. *Ratio* is estimate / measured: below 1 is too little.
*Equal* means within 0.1%, the precision of most published figures.

`python -m benchmarks.accuracy --report report.json` compares the estimates of any report with the
measurements in it, `--published FILE` with figures of your own.
"""
_DIGITS = 3


def accuracy_page(
    comparisons: Sequence[Comparison],
    left_out: Iterable[Published],
    troubles: Iterable[str],
    torch_version: str,
    cudnn: str,
    notes: Iterable[str] = (),
) -> str:
    """The whole page; ``cudnn`` is what was asked for the workspaces of convolutions."""
    families = list(dict.fromkeys(comparison.family for comparison in comparisons))
    parts = [_HEAD.format(torch=torch_version, cudnn=cudnn), "## All together\n", _summary_table(comparisons)]
    for family in families:
        own = [comparison for comparison in comparisons if comparison.family == family]
        parts.append(f"## {family[:1].upper()}{family[1:]}\n")
        parts.append(case_table(own))
        parts.append(_sources(own))
    parts += [_noted(list(notes)), _failed(list(troubles)), _not_recreated(list(left_out))]
    return "\n".join(part for part in parts if part)


def _summary_table(comparisons: Sequence[Comparison]) -> str:
    lines = [
        "| family | metric | figures | median ratio | worst ratio | under | equal | over |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in (one for one in comparisons if not one.is_component):
        groups.setdefault((comparison.family, comparison.metric), []).append(comparison)
    lines += [_summary_line(family, metric, summarize(group)) for (family, metric), group in groups.items()]
    if comparisons:
        lines.append(_summary_line("**all**", "", summarize(comparisons)))
    return "\n".join(lines) + "\n"


def _summary_line(family: str, metric: str, summary: Summary) -> str:
    shares = " | ".join(f"{share:.0%}" for share in (summary.under, summary.equal, summary.over))
    name = metric.replace("_", " ")
    return f"| {family} | {name} | {summary.count} | {summary.median:.4f} | {summary.worst:.4f} | {shares} |"


def case_table(comparisons: Iterable[Comparison]) -> str:
    """A row a figure."""
    lines = [
        "| case | metric | estimate | measured | ratio | what explains the rest |",
        "|---|---|--:|--:|--:|---|",
    ]
    for one in comparisons:
        sizes = " | ".join(_size(size, one.unit) for size in (one.estimate_bytes, one.measured_bytes))
        metric = one.metric.replace("_", " ")
        lines.append(f"| {_cell(one.case)} | {metric} | {sizes} | {one.ratio:.4f} | {_cell(one.explained)} |")
    return "\n".join(lines) + "\n"


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
