"""The result of ``membudget fit``: the values tried, as a table with bars, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from ...hardware.gpus import find_gpu
from ...reporting.terminal.fitting import folded
from ...units import GIB, gib_text
from .search import FAILS, FITS, TOO_LARGE, Tried, conclusion

#: Most characters of a bar of all that the card can hold.
_BAR = 40


def result_lines(name: str, gpu: str, tried: Mapping[int, Tried], most: int, columns: int) -> list[str]:
    """The verdict for one card, then a line for each value, with a bar that fits ``columns``."""
    usable_bytes = find_gpu(gpu).usable_bytes
    lines = ["", f"{gpu} ({gib_text(usable_bytes)} without the CUDA context): {_verdict(name, tried, most)}"]
    width = max(len(name), *(len(str(value)) for value in tried))
    head = f"  {name:>{width}}  {'allocated':>10}  {'reserved':>10}"
    lines.append(head)
    column = len(f"{head}  ")
    bar = max(1, min(_BAR, columns - column))
    refusal = f"does not fit on {gpu}: "
    found = (_line(tried[value], width, usable_bytes, bar, refusal) for value in sorted(tried))
    return [*lines, *folded(found, columns, column)]


def _verdict(name: str, tried: Mapping[int, Tried], most: int) -> str:
    found = conclusion(tried)
    if found.largest is None:
        assert found.limit is not None
        what = "the test fails" if found.limit.outcome == FAILS else "does not fit"
        return f"{name}={found.limit.value} {what}, and no smaller value was tried"
    text = f"{name}={found.largest} is the largest that fits"
    if found.limit is None:
        text = f"{name}={found.largest} fits, and no value above --max={most} was tried"
    elif found.limit.outcome == FAILS:
        text += f"; memory is not the limit: with {found.limit.value} the test fails"
    if found.gaps:
        text += f"; not every smaller value fits: {', '.join(map(str, found.gaps))}"
    return text


def _line(one: Tried, width: int, usable_bytes: int, bar: int, refusal: str) -> str:
    figures = [gib_text(size) if size is not None else "" for size in (one.peak_bytes, one.reserved_bytes)]
    start = f"  {one.value:>{width}}  {figures[0]:>10}  {figures[1]:>10}"
    if one.outcome == FITS and one.peak_bytes is not None:
        return f"{start}  {'#' * round(bar * one.peak_bytes / usable_bytes)}"
    word = {TOO_LARGE: "does not fit", FAILS: "fails"}[one.outcome]
    reason = one.reason.removeprefix(refusal).partition(";")[0].partition(" GPU 0 ")[0]  # PyTorch's text
    return f"{start}  {word}: {reason}"


def csv_text(name: str, cards: Mapping[str, Mapping[int, Tried]]) -> str:
    """A row for each value and card."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["gpu", name, "outcome", "allocated_bytes", "reserved_bytes", "reason"])
    for gpu, tried in cards.items():
        for value in sorted(tried):
            one = tried[value]
            writer.writerow([gpu, value, one.outcome, one.peak_bytes, one.reserved_bytes, one.reason])
    return file.getvalue()


def chart_of(name: str, cards: Mapping[str, Mapping[int, Tried]]) -> str:
    """One HTML file with the curves. Raises ``ImportError`` without plotly."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    for gpu, tried in cards.items():
        fitting = [tried[value] for value in sorted(tried) if tried[value].outcome == FITS]
        sizes = [(one.peak_bytes or 0) / GIB for one in fitting]
        figure.add_scatter(x=[one.value for one in fitting], y=sizes, name=gpu, mode="lines+markers")
        usable = find_gpu(gpu).usable_bytes / GIB
        figure.add_hline(y=usable, line_dash="dash", annotation_text=f"{gpu} can hold {usable:.1f} GiB")
    figure.update_layout(xaxis_title=name, yaxis_title="allocated, GiB")
    return str(figure.to_html(include_plotlyjs=True))
