"""Two pages on where the two devices differ: a long one with every reason, and the counts for the docs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .comparing import DATA, FAKE_ERROR, FAKE_FAULT, FAKE_LISTED, STAND_IN_ERROR, STAND_IN_NOT_MODELLED
from .reasons import Group, Reason, grouped
from .results import Part, Row, distance_bytes

_HEAD = """\
# The stand-in and the device of fake tensors, side by side

Made by `python -m benchmarks.parity` with torch {torch} for an {card}; cases, examples and clients
are for the card that each names, or an H100.
The same work runs on both devices, on one CUDA build of torch: PyTorch's own samples of its operators
(`op_db`, forward and backward; {samples} in float32, one each in bfloat16, complex64, int64 and bool), the
steps of `benchmarks/steps`, the cases of `benchmarks/cases`, the examples and the clients' tests. Compared
are the sizes that the allocator is asked for (not their order) and the peak of what is alive; the tables show
peaks in bytes above the start, or where those are the same what only one device was asked for.

On the stand-in PyTorch's own CUDA code allocates, so a difference counts as a fault of fake tensors unless

- the stand-in's report lists a function as not modelled, or the stand-in ends with an error;
- *data*: the device of fake tensors had to assume a value that decides how much is allocated.

*Listed in the report* means that the estimate on fake tensors says that it leaves this out.
`python -m benchmarks.parity --out FOLDER` writes every difference.
"""
_RUN = """\
Run with torch {torch} for an {card}; cases, examples and clients are for the card that each names, or an
H100."""
_FAULTS = (FAKE_FAULT, FAKE_LISTED, FAKE_ERROR, STAND_IN_NOT_MODELLED, STAND_IN_ERROR, DATA)
_NAMES = 6
_NOTE = 110
#: Of sizes in a cell.
_TERMS = 2


def parity_page(parts: Sequence[Part], reasons: Sequence[Reason]) -> str:
    """The whole page."""
    ran = [part for part in parts if part.counts]
    if not ran:
        raise ValueError("no part has been run: there is nothing to write of")
    sections = [_HEAD.format(**ran[0].versions), "## Counts\n", _counts(ran)]
    for part in ran:
        groups = grouped(part.rows, reasons)
        sections += [f"## {part.name.capitalize()}\n", _explained(groups), _unexplained(groups)]
    missing = [part.name for part in parts if not part.counts]
    if missing:
        sections += ["## Not compared yet\n", f"{', '.join(missing)}.\n"]
    return "\n".join(section for section in sections if section)


def parity_summary(parts: Sequence[Part]) -> str:
    """The summary in the docs: what ran, and the counts."""
    ran = [part for part in parts if part.counts]
    return f"{_RUN.format(**ran[0].versions)}\n\n{_counts(ran)}"


def _counts(parts: Iterable[Part]) -> str:
    titles = " | ".join(_FAULTS)
    lines = [
        f"| part | pieces of work | the same | samples | {titles} | fails on both |",
        "|---|--:|--:|--:|" + "--:|" * (len(_FAULTS) + 1),
    ]
    for part in parts:
        differing = {row.work for row in part.rows}
        samples = [sum(row.samples for row in part.rows if row.fault == fault) for fault in _FAULTS]
        figures = [len(part.counts), len(part.counts.keys() - differing), sum(part.counts.values()), *samples]
        figures.append(sum(part.failed_on_both.values()))
        lines.append(_line(part.name, *(f"{figure:,}" for figure in figures)))
    return (
        "\n".join(lines)
        + "\n\nColumns named after a fault count samples; forward and backward count separately.\n"
    )


def _explained(groups: Sequence[Group]) -> str:
    known = [group for group in groups if group.reason]
    if not known:
        return ""
    lines = [
        "| reason | whose | in | samples | the largest: on the stand-in | on fake tensors |",
        "|---|---|---|--:|--:|--:|",
    ]
    for group in known:
        largest = max(group.rows, key=lambda row: distance_bytes(row.example))
        sizes = _sizes(largest)
        lines.append(_line(group.reason, group.fault, _names(group.rows), f"{group.samples:,}", *sizes))
    return "\n".join(lines) + "\n"


def _unexplained(groups: Sequence[Group]) -> str:
    lines = []
    for group in (one for one in groups if not one.reason):
        lines += [
            f"### Not looked into: {group.fault}\n",
            "| in | phase | samples | stand-in | fake | note |",
        ]
        lines.append("|---|---|--:|--:|--:|---|")
        for row in sorted(group.rows, key=lambda row: -distance_bytes(row.example)):
            note = row.example.note if group.fault != FAKE_LISTED else ""
            text = note or row.example.sample
            lines.append(_line(row.work, row.phase, f"{row.samples:,}", *_sizes(row), text[:_NOTE]))
        lines.append("")
    return "\n".join(lines)


def _sizes(row: Row) -> tuple[str, str]:
    """The peaks of both, or what only one was asked for where those are the same."""
    one = row.example
    if one.stand_in_peak_bytes == one.fake_peak_bytes:
        return _sum(one.only_stand_in), _sum(one.only_fake)
    return f"{one.stand_in_peak_bytes:,}", f"{one.fake_peak_bytes:,}"


def _sum(sizes_bytes: Sequence[int]) -> str:
    shown = [f"{size:,}" for size in sizes_bytes[:_TERMS]]
    more = ["..."] if len(sizes_bytes) > _TERMS else []
    return " + ".join([*shown, *more]) or "0"


def _names(rows: Iterable[Row]) -> str:
    names = list(dict.fromkeys(row.work for row in rows))
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMES]) + more


def _line(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
