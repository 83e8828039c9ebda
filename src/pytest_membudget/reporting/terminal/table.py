"""The table of a session's budgets, in the width of a terminal."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ...budgets.verdict import WITHIN
from ...memory_report import MemoryReport
from ...results.comparison import GROWN, UNCHANGED
from ...results.test_result import ALLOWED_GROWTH, TestResult
from ...units import GIB, gib_text
from ..causes import signed_growth
from .fitting import LEAST, common_prefix, cut_middle

#: Gives a text the colour of that name, where the terminal has colours.
Paint = Callable[[str, str], str]

#: More tests than these are not listed: only those that fail, or that a reader has to know of.
MOST_ROWS = 20
#: Columns that are there where a test has something to say in them.
_OPTIONAL = ("rank", "base", "growth", "measured", "ratio", "host")
#: Columns that a narrow terminal leaves out, the least important first. Budget, estimate and verdict stay.
_DROPPED = (
    "largest component",
    "ratio",
    "rank",
    "of budget",
    "base",
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
    rows: Sequence[TestResult], not_run: Collection[str], width: int, paint: Paint, *, shows_all: bool
) -> Iterator[str]:
    """The table in lines of at most ``width`` characters, failures last.

    ``not_run``: node ids of tests that have an estimate, and did not run. ``shows_all``: however many there
    are.
    """
    notes = dict.fromkeys(not_run, "not run") | {row.nodeid: "expected" for row in rows if row.expected}
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
    is_kept = row.lock is None or row.lock.word == UNCHANGED
    is_plain = row.verdict == WITHIN and row.nodeid not in notes and row.status in (None, UNCHANGED, GROWN)
    return 0 if is_plain and is_kept else 1


#: Columns by their names: the heading, then the text of each row.
_Columns = dict[str, list[str]]


def _lines(rows: Sequence[TestResult], notes: Mapping[str, str], width: int, paint: Paint) -> Iterator[str]:
    cells = [_cells(row, notes.get(row.nodeid)) for row in rows]
    columns = {name: [name, *(cell[name] for cell in cells)] for name in cells[0]}
    empty = [name for name in _OPTIONAL if {*columns[name][1:]} == {"-"}]
    decisive = [
        name
        for name in _DECISIVE
        if any(row.fails and text != "-" for row, text in zip(rows, columns[name][1:], strict=True))
    ]
    fitted = _fitted({name: texts for name, texts in columns.items() if name not in empty}, decisive, width)
    verdicts = fitted.pop("verdict")
    aligned = [_aligned(name, texts) for name, texts in fitted.items()]
    yield _GAP.join([*(texts[0] for texts in aligned), verdicts[0]])
    yield _GAP.join("-" * max(map(len, texts)) for texts in (*aligned, verdicts))
    for number, row in enumerate(rows, start=1):
        verdict = paint(verdicts[number], _colour(row, notes))
        yield _GAP.join([*(texts[number] for texts in aligned), verdict])


def _aligned(name: str, texts: Sequence[str]) -> list[str]:
    width = max(map(len, texts))
    return [text.ljust(width) if name in _LEFT else text.rjust(width) for text in texts]


def _fitted(columns: _Columns, decisive: Sequence[str], width: int) -> _Columns:
    """Fit ``columns`` into ``width``: leave out the names' common prefix, then columns; then cut names.

    ``decisive``: the columns by which a test may have failed.
    """
    names = columns["test"]
    if _width(columns) > width:
        prefix = common_prefix(names[1:])
        names = [prefix or names[0], *(name.removeprefix(prefix) for name in names[1:])]
    # the heading takes what room is left, and is not cut to less than a name is
    longest = max(min(len(names[0]), LEAST), *map(len, names[1:]))
    left = {**columns, "test": [""]}
    for name in _DROPPED:
        least = min(longest, _SHORT_NAME if name in decisive else _NAME)
        if name in left and least + _width(left) > width:
            del left[name]
    room = width - _width(left)
    return {**left, "test": [cut_middle(name, room) for name in names]}


def _width(columns: _Columns) -> int:
    return sum(max(map(len, texts)) for texts in columns.values()) + len(_GAP) * (len(columns) - 1)


def _colour(row: TestResult, notes: Mapping[str, str]) -> str:
    """The colour that pytest gives a test of that outcome."""
    if row.fails:
        return "red"
    return "green" if row.verdict == WITHIN and row.nodeid not in notes else "yellow"


def _cells(row: TestResult, note: str | None) -> dict[str, str]:
    """The texts of a table row, by column; of several ranks, those of the rank that takes most."""
    limit, estimate = row.limit_bytes, row.worst_estimate if not row.raised else None
    peak = estimate.peak_bytes if estimate is not None else 0
    since = row.since_base
    both = row.estimate_and_measurement
    estimated, measured = (one.peak_bytes for one in both) if both is not None else (0, 0)
    return {
        "test": row.nodeid,
        "budget": _gib(limit),
        "estimate": _gib(peak or None),
        "rank": _rank(row, estimate),
        "base": _gib(since.base_bytes if since else None),
        "growth": signed_growth(since) if since is not None else "-",
        "measured": _gib(measured or None),
        "ratio": f"{estimated / measured:.3f}" if measured else "-",
        "of budget": f"{peak / limit:.0%}" if limit and peak else "-",
        "host": _host(row),
        "largest component": _largest(estimate) if estimate is not None and peak else "-",
        "verdict": _verdict(row, note),
    }


def _rank(row: TestResult, estimate: MemoryReport | None) -> str:
    """The rank of ``estimate``, where another one takes less."""
    if estimate is None or len({one.peak_bytes for one in row.estimates}) < 2:
        return "-"
    return f"{estimate.rank} of {row.gpus}"


def _verdict(row: TestResult, note: str | None) -> str:
    """The verdict; in brackets the statuses in the lock file and since the base, and a note."""
    word, is_excused = (row.lock.word, row.lock.allowed) if row.lock is not None else (UNCHANGED, None)
    lock = "" if word == UNCHANGED else word if is_excused else f"lock: {word}"
    # a column says how much it has grown, and nothing is said twice
    is_said = row.state in (UNCHANGED, ALLOWED_GROWTH, word)
    state = "" if is_said else (row.state or "").removeprefix("over ")
    said = [text for text in (lock, state, note) if text]
    verdict = f"{row.verdict} {row.mark}" if row.mark else row.verdict
    return f"{verdict} ({', '.join(said)})" if said else verdict


def _host(row: TestResult) -> str:
    """Host memory of the machine that holds most, for tests with a budget for host memory."""
    budget_gib = row.budget.host_gib if row.budget is not None else None
    if budget_gib is None:
        return "-"
    return f"{_gib(row.host_bytes or 0).removesuffix(' GiB')} of {budget_gib:.2f} GiB"


def _largest(estimate: MemoryReport) -> str:
    name, size = estimate.largest_component
    return f"{name} {_gib(size)}"


def _gib(size_bytes: int | None) -> str:
    """GiB, so that a column can be read at a glance; finer units where those would show no digits."""
    if size_bytes is None:
        return "-"
    return gib_text(size_bytes) if size_bytes < GIB / 100 else f"{size_bytes / GIB:.2f} GiB"
