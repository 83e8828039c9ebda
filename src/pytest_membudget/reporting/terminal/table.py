"""The table of a session's budgets, in the width of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...budgets.verdict import WITHIN
from ...memory_report import MemoryReport
from ...results.comparison import UNCHANGED
from ...results.lock import KEPT
from ...results.test_result import TestResult
from ...units import GIB, gib_text
from ..causes import signed_growth
from .fitting import LEAST, common_prefix, cut_middle

#: Gives a text the colour of that name, where the terminal has colours.
Paint = Callable[[str, str], str]

#: More tests than these are not listed: only those that fail, or that a reader has to know of.
MOST_ROWS = 20
#: Columns that are there where a test has something to say in them.
_OPTIONAL = ("rank", "base", "growth", "analytic", "measured", "ratio", "host")
#: Columns that a narrow terminal leaves out, the least important first. Budget, estimate and verdict stay.
_DROPPED = (
    "largest component",
    "ratio",
    "rank",
    "of budget",
    "base",
    "analytic",
    "host",
    "measured",
    "growth",
)
#: Those that a test may fail by.
_DECISIVE = ("host", "measured", "growth")
#: Names are cut to this width before a column is left out; more, if a test may have failed by the column.
_NAME, _SHORT_NAME = 32, 12
_LEFT = ("test", "rank", "largest component", "verdict")
_GAP = "  "


def table_lines(
    rows: Sequence[TestResult], notes: Mapping[str, str], width: int, paint: Paint, *, shows_all: bool
) -> Iterator[str]:
    """The table in lines of at most ``width`` characters, failures last.

    ``notes`` say more of the verdicts of single tests. ``shows_all``: however many there are.
    """
    ordered = sorted(rows, key=lambda row: _attention(row, notes))
    listed = ordered
    if len(rows) > MOST_ROWS and not shows_all:
        listed = [row for row in ordered if _attention(row, notes)]
    if listed:
        yield from _lines(listed, notes, width, paint)
    if len(listed) < len(rows):
        others = "others " if listed else ""
        yield f"{others}within their budgets: {len(rows) - len(listed)} (-v lists them)"


def _attention(row: TestResult, notes: Mapping[str, str]) -> int:
    """The order of a test: 0, within its budget; 1, a reader has to know of it; 2, it fails."""
    if row.fails:
        return 2
    is_kept = row.lock is None or row.lock.status == KEPT
    is_plain = row.verdict == WITHIN and row.nodeid not in notes and row.status in (None, UNCHANGED)
    return 0 if is_plain and is_kept else 1


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    heading: str
    texts: Sequence[str]
    name_width: int
    """To which names are cut before this column is left out."""

    @property
    def width(self) -> int:
        return max(len(text) for text in (self.heading, *self.texts))

    def cut(self, width: int) -> _Column:
        """The column with names in at most ``width`` characters."""
        return replace(
            self,
            heading=cut_middle(self.heading, width),
            texts=[cut_middle(text, width) for text in self.texts],
        )

    def aligned(self, text: str) -> str:
        return text.ljust(self.width) if self.name in _LEFT else text.rjust(self.width)


def _lines(rows: Sequence[TestResult], notes: Mapping[str, str], width: int, paint: Paint) -> Iterator[str]:
    cells = [_cells(row, notes.get(row.nodeid)) for row in rows]
    columns = [_column(name, rows, [cell[name] for cell in cells]) for name in cells[0]]
    *columns, verdicts = _fitted(
        [one for one in columns if one.name not in _OPTIONAL or any(text != "-" for text in one.texts)], width
    )
    yield _GAP.join([*(one.aligned(one.heading) for one in columns), verdicts.heading])
    yield _GAP.join("-" * one.width for one in (*columns, verdicts))
    for number, row in enumerate(rows):
        verdict = paint(verdicts.texts[number], _colour(row, notes))
        yield _GAP.join([*(one.aligned(one.texts[number]) for one in columns), verdict])


def _column(name: str, rows: Sequence[TestResult], texts: Sequence[str]) -> _Column:
    fails = any(row.fails and text != "-" for row, text in zip(rows, texts, strict=True))
    return _Column(name, name, texts, _SHORT_NAME if name in _DECISIVE and fails else _NAME)


def _fitted(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Fit ``columns`` into ``width``: leave out the names' common prefix, then columns; then cut names."""
    names, *others = columns
    if _width(columns) > width:
        prefix = common_prefix(names.texts)
        texts = [text.removeprefix(prefix) for text in names.texts]
        names = replace(names, heading=prefix or names.heading, texts=texts)
    # the heading takes what room is left, and is not cut to less than a name is
    longest = max(min(len(names.heading), LEAST), *map(len, names.texts))
    by_name = {one.name: one for one in others}
    for column in [by_name[name] for name in _DROPPED if name in by_name]:
        if min(longest, column.name_width) + _width(others) + len(_GAP) > width:
            others.remove(column)
    return [names.cut(width - _width(others) - len(_GAP)), *others]


def _width(columns: Sequence[_Column]) -> int:
    return sum(one.width for one in columns) + len(_GAP) * (len(columns) - 1)


def _colour(row: TestResult, notes: Mapping[str, str]) -> str:
    """The colour that pytest gives a test of that outcome."""
    if row.fails:
        return "red"
    return "green" if row.verdict == WITHIN and row.nodeid not in notes else "yellow"


def _cells(row: TestResult, note: str | None) -> dict[str, str]:
    """The texts of a table row, by column; of several ranks, those of the rank that takes most."""
    limit, estimate = row.limit_bytes, row.worst_estimate if not row.raised else None
    peak = estimate.peak_bytes if estimate is not None else 0
    return {
        "test": row.nodeid,
        "budget": _gib(limit),
        "estimate": _gib(peak or None),
        "rank": _rank(row, estimate),
        **_since_base(row),
        "analytic": _analytic(row),
        **_measured_cells(row),
        "of budget": f"{peak / limit:.0%}" if limit and peak else "-",
        "host": _host(row),
        "largest component": _largest(estimate) if estimate is not None and peak else "-",
        "verdict": _verdict(row, note),
    }


def _rank(row: TestResult, estimate: MemoryReport | None) -> str:
    """The rank of ``estimate``, where another one takes less."""
    if estimate is None or len({one.peak_bytes for one in row.own_estimates}) < 2:
        return "-"
    return f"{estimate.rank} of {row.gpus}"


def _verdict(row: TestResult, note: str | None) -> str:
    """The verdict; in brackets the statuses in the lock file and since the base, and a note."""
    lock = f"lock: {row.lock.status}" if row.lock is not None and row.lock.status != KEPT else ""
    said = [word for word in (lock, row.status, note) if word and word != UNCHANGED]
    verdict = f"{row.verdict} {row.mark}" if row.mark else row.verdict
    return f"{verdict} ({', '.join(said)})" if said else verdict


def _since_base(row: TestResult) -> dict[str, str]:
    """The figure at the base, and the growth since, with its share of the base's figure."""
    comparison = row.comparison
    if comparison is None or comparison.base_bytes is None:
        return {"base": "-", "growth": "-"}
    return {"base": _gib(comparison.base_bytes), "growth": signed_growth(comparison)}


def _analytic(row: TestResult) -> str:
    """The figure of the scenario that the test names, and its ratio to the test's own estimate."""
    figure, estimate = row.scenario_figure, row.estimate_of_verdict
    if figure is None or estimate is None or not estimate.peak_bytes:
        return "-"
    return f"{_gib(figure.peak_bytes)} ({figure.peak_bytes / estimate.peak_bytes:.3f})"


def _measured_cells(row: TestResult) -> dict[str, str]:
    measurement, ratio = row.worst_measurement, row.ratio
    if measurement is None or ratio is None:
        return {"measured": "-", "ratio": "-"}
    return {"measured": _gib(measurement.peak_bytes), "ratio": f"{ratio:.3f}"}


def _host(row: TestResult) -> str:
    """Host memory of the machine that holds most, for tests with a budget for host memory."""
    budget_gib = row.budget.host_gib if row.budget is not None else None
    if budget_gib is None:
        return "-"
    return f"{_gib(row.host_bytes or 0).removesuffix(' GiB')} of {budget_gib:.2f} GiB"


def _largest(estimate: MemoryReport) -> str:
    name, size = max(estimate.components.items(), key=lambda entry: entry[1])
    return f"{name} {_gib(size)}"


def _gib(size_bytes: int | None) -> str:
    """GiB, so that a column can be read at a glance; finer units where those would show no digits."""
    if size_bytes is None:
        return "-"
    return gib_text(size_bytes) if size_bytes < GIB / 100 else f"{size_bytes / GIB:.2f} GiB"
