"""Two pages of estimates and published figures: a long one with every case, and its summary for the docs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .accuracy_runs import DeviceRun
from .comparison import Comparison, summarize
from .published_figures import UNITS, Published

_HEAD = """\
# How exact the estimates are

Made by `python -m benchmarks.accuracy`:

| device | torch | convolutions planned by |
|---|---|---|
{devices}

Each case is a configuration whose peak somebody measured on a GPU and published; a test in `benchmarks/cases`
does the same without a GPU, on each of the devices. *Ratio* is estimate / measured: below 1 is too little.
*Equal* means within 0.1%, the precision of most published figures.

`python -m benchmarks.accuracy --report report.json` compares the estimates of any report with the
measurements in it, `--published FILE` with figures of your own.
"""
_DIGITS = 3
#: Smaller differences between devices are not listed: nothing on the page shows them.
_SHOWN_RATIO = 0.00005


def accuracy_page(
    comparisons: Sequence[Comparison],
    left_out: Iterable[Published],
    troubles: Iterable[str],
    runs: Iterable[DeviceRun],
    notes: Iterable[str] = (),
) -> str:
    """The whole page; ``comparisons`` are in the order of their devices."""
    families = list(dict.fromkeys(comparison.family for comparison in comparisons))
    devices = "\n".join(f"| {run.device} | {run.torch} | {run.cudnn} |" for run in runs)
    parts = [_HEAD.format(devices=devices), "## All together\n", _summary_table(comparisons)]
    parts.append(_apart(comparisons))
    for family in families:
        own = [comparison for comparison in comparisons if comparison.family == family]
        parts.append(f"## {family[:1].upper()}{family[1:]}\n")
        parts.append(case_table(own))
        parts.append(_sources(own))
    parts += [_noted(list(notes)), _failed(list(troubles)), _not_recreated(list(left_out))]
    return "\n".join(part for part in parts if part)


def accuracy_summary(comparisons: Sequence[Comparison], runs: Iterable[DeviceRun]) -> str:
    """The summary in the docs: devices, and a row for each family and metric.

    Devices with the same figures share a row.
    """
    devices = "; ".join(f"{run.device}: torch {run.torch}, {run.cudnn}" for run in runs)
    lines = [
        "| family | metric | device | figures | median ratio | worst ratio | below | within 0.1% | above |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.family, one.metric), []).append(one)
    for (family, metric), group in groups.items():
        lines += _shared_lines(family, metric, group)
    lines += _shared_lines("**all**", "", comparisons)
    return "\n".join([f"Run with {devices}.", "", *lines]) + "\n"


def _shared_lines(family: str, metric: str, comparisons: Sequence[Comparison]) -> Iterator[str]:
    by_figures: dict[str, list[str]] = {}
    for device in _devices(comparisons):
        by_figures.setdefault(_figures(comparisons, device), []).append(device)
    for figures, devices in by_figures.items():
        yield f"| {family} | {_words(metric)} | {', '.join(devices)} | {figures} |"


def _summary_table(comparisons: Sequence[Comparison]) -> str:
    lines = [
        "| family | metric | device | figures | median ratio | worst ratio | under | equal | over |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in (one for one in comparisons if not one.is_component):
        groups.setdefault((comparison.family, comparison.metric), []).append(comparison)
    for (family, metric), group in groups.items():
        lines += _summary_lines(family, metric, group)
    lines += _summary_lines("**all**", "", comparisons)
    return "\n".join(lines) + "\n"


def _summary_lines(family: str, metric: str, comparisons: Sequence[Comparison]) -> Iterator[str]:
    for device in _devices(comparisons):
        yield f"| {family} | {_words(metric)} | {device} | {_figures(comparisons, device)} |"


def _figures(comparisons: Iterable[Comparison], device: str) -> str:
    """The cells of one device's summary."""
    summary = summarize([one for one in comparisons if one.device == device])
    shares = " | ".join(f"{share:.0%}" for share in (summary.under, summary.equal, summary.over))
    return f"{summary.count} | {summary.median:.4f} | {summary.worst:.4f} | {shares}"


def _apart(comparisons: Sequence[Comparison]) -> str:
    """The figures that the devices have unequally."""
    groups = [own for own in _grouped(comparisons) if _spread(own) > _SHOWN_RATIO]
    if not groups:
        return ""
    lines = []
    for own in groups:
        ratios = ", ".join(f"{one.device} {one.ratio:.4f}" for one in own)
        lines.append(f"- {own[0].case}, {_words(own[0].metric)}: {ratios}")
    return "\n".join(["Figures that the devices have unequally, by their ratios:\n", *lines]) + "\n"


def _spread(comparisons: Sequence[Comparison]) -> float:
    ratios = [one.ratio for one in comparisons]
    return max(ratios) - min(ratios)


def case_table(comparisons: Sequence[Comparison]) -> str:
    """A row a figure, in it each device's estimate."""
    devices = _devices(comparisons)
    ratios = [f"ratio, {device}" for device in devices] if len(devices) > 1 else ["ratio"]
    columns = ["case", "metric", *(device or "estimate" for device in devices), "measured", *ratios]
    ruler = "---|---" + "|--:" * (2 * len(devices) + 1) + "|---"
    lines = [f"| {' | '.join(columns)} | what explains the rest |", f"|{ruler}|"]
    lines += [_case_line(own, devices) for own in _grouped(comparisons)]
    return "\n".join(lines) + "\n"


def _case_line(own: Sequence[Comparison], devices: Iterable[str]) -> str:
    """The row of one figure; a device that has none of it has a dash."""
    by_device = {one.device: one for one in own}
    found = [by_device.get(device) for device in devices]
    sizes = [_size(one.estimate_bytes, one.unit) if one else "-" for one in found]
    ratios = [f"{one.ratio:.4f}" if one else "-" for one in found]
    first = own[0]
    sizes.append(_size(first.measured_bytes, first.unit))
    cells = [_cell(first.case), _words(first.metric), *sizes, *ratios, _cell(first.explained)]
    return f"| {' | '.join(cells)} |"


def _grouped(comparisons: Iterable[Comparison]) -> list[list[Comparison]]:
    """Those of one figure together."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.case, one.metric), []).append(one)
    return list(groups.values())


def _devices(comparisons: Iterable[Comparison]) -> list[str]:
    return list(dict.fromkeys(one.device for one in comparisons))


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
