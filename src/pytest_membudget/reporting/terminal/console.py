"""The terminal summary of a session: a table of the budgets and a line of counts."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ...budgets.verdict import SKIPPED, UNDECIDED, UNSET
from ...memory_report import MemoryReport
from ...results.comparison import (
    GROWN,
    REMOVED,
    SHRUNK,
    ComparedSession,
    component_changes,
    growth_text,
    versions_text,
)
from ...results.test_result import TestResult
from ...units import gib_text
from ..causes import change_lines
from ..status import SMALL, legend
from .fitting import folded
from .table import Paint, table_lines

#: Most tests whose changes are listed, the largest first.
_CHANGED = 10
#: Tests without a limit that are listed with what to write.
_UNSET = 20
#: Distributions with other versions than at the base: most that the summary names.
_VERSIONS = 20
#: The share of a measurement from which an estimate is said to differ.
_DISAGREEMENT = 0.05
#: Components that the line of a disagreement names.
_COMPONENTS = 3
#: Reasons of tests that could not be measured anywhere, or need not be.
_NEVER_MEASURED = ("analytic scenario", "over budget already")


def summary_lines(
    rows: Sequence[TestResult],
    *,
    skipped_files: Mapping[str, str] | None = None,
    not_run: Collection[str] = (),
    width: int = 80,
    paint: Paint = lambda text, colour: text,
    is_verbose: bool = False,
    lists_changes: bool = True,
) -> Iterator[str]:
    """The table of ``rows``, what changed in tests that pass, those not checked and why, then the counts.

    ``skipped_files``: why files with budgets were not collected. ``not_run``: node ids of the tests that were
    to run and did not. ``width`` of the terminal. ``is_verbose``: list all tests, and why tests were not
    measured. ``lists_changes``: without it, what changed is left out.
    """
    skipped = {row.nodeid: row.reason for row in rows if row.verdict == SKIPPED}
    unchecked = {**skipped, **(skipped_files or {})}
    if rows:
        yield from table_lines(rows, not_run, width, paint, shows_all=is_verbose)
    changed = [row for row in rows if not row.fails and row.status in (SHRUNK, GROWN)]
    notable = [*legend(rows), *small_line(rows), *changed_lines(changed if lists_changes else [], width)]
    below = _lines_below(rows, unchecked, is_verbose=is_verbose)
    counts = ", ".join(_counts(rows, len(unchecked), len(not_run)))
    yield from folded([*notable, *below, counts], width)


def _lines_below(
    rows: Sequence[TestResult], unchecked: Mapping[str, str], *, is_verbose: bool
) -> Iterator[str]:
    for row in rows:
        if row.lock is not None and row.lock.has_shrunk:
            yield f"{SHRUNK}: {row.nodeid} {row.lock.reason}"
    for row in rows:
        if row.verdict == UNDECIDED:
            yield f"undecided: {row.nodeid}: {row.reason}"
    unset = [row for row in rows if row.verdict == UNSET]
    for row in unset[:_UNSET]:
        remedy = f"{';' if row.lock is None else ', or'} write {row.limit_to_write}"
        yield f"unset: {row.nodeid}: {row.reason}{remedy}"
    if len(unset) > _UNSET:
        yield f"and {len(unset) - _UNSET} more without a limit; report.json has all"
    for nodeid, why in unchecked.items():
        yield f"unchecked: {nodeid}: {why}"
    if is_verbose or any(row.measurements for row in rows):
        yield from (f"not measured: {count} ({why})" for why, count in _not_measured(rows).items())


def changed_lines(rows: Sequence[TestResult], width: int) -> Iterator[str]:
    """What has changed in ``rows`` since the base, the largest changes first."""
    found = [(row, row.comparison) for row in rows if row.comparison is not None and row.comparison.findings]
    found.sort(key=lambda pair: -abs(pair[1].growth_bytes))
    for row, comparison in found[:_CHANGED]:
        growth = growth_text(comparison.growth_bytes, comparison.base_bytes or 0)
        versions = versions_text(comparison.distributions)
        yield f"{row.state}: {row.nodeid} {growth}{versions and f', with {versions}'}"
        yield from change_lines(comparison, width)
    if len(found) > _CHANGED:
        yield f"and {len(found) - _CHANGED} more that changed; report.json has all"


def _not_measured(rows: Sequence[TestResult]) -> Counter[str]:
    """How many tests were not measured, by reason."""
    return Counter(row.not_measured for row in rows if row.not_measured)


def _counts(rows: Sequence[TestResult], unchecked: int, not_run: int) -> Iterator[str]:
    """The parts of the last line: verdicts, the lock file, the base, measurements, and what did not run."""
    verdicts = Counter(row.verdict for row in rows)
    within, over, undecided, unset = (verdicts[word] for word in ("within", "over", "undecided", "unset"))
    failed = verdicts["error"]
    cached = sum(row.cached for row in rows)
    more = _counted((undecided, "undecided"), (unset, "unset"), (cached, "from cache"))
    counts = [f"{within} within", f"{over} over", *more]
    yield f"{within + over + undecided + unset} estimated ({', '.join(counts)})"
    yield from _counted((failed, "without an estimate"))
    locked = Counter(row.lock.word for row in rows if row.lock is not None)
    if locked:
        found = ", ".join(f"{count} {status}" for status, count in locked.items())
        yield f"{sum(locked.values())} in the lock file ({found})"
    compared = Counter(row.state for row in rows if row.state is not None)
    yield from (f"{count} {status}" for status, count in compared.items())
    known = [row for row in rows if row.verdict in ("within", "over") and row.status is None]
    idle = sum(row.budget is not None and row.budget.max_growth is not None for row in known)
    yield from _counted((idle, "not compared (max_growth needs --membudget-compare)"))
    yield from _measured(rows)
    yield from _counted((unchecked, "unchecked"), (not_run, "not run"))


def _measured(rows: Sequence[TestResult]) -> Iterator[str]:
    """How many tests were measured and not measured; if none was, the most frequent reason."""
    measured = sum(bool(row.measurements) for row in rows)
    reasons = _not_measured(rows)
    if measured and reasons:
        yield from (f"{measured} measured", f"{reasons.total()} not measured")
    else:
        avoidable = [why for why in reasons if why not in _NEVER_MEASURED]
        usual = max(avoidable, key=reasons.__getitem__, default="")
        yield f"{measured} measured" + (usual and f" ({usual.partition(':')[0]})")


def _counted(*pairs: tuple[int, str]) -> list[str]:
    return [f"{count} {what}" for count, what in pairs if count]


def disagreement(row: TestResult) -> str:
    """The line on an estimate that differs from its measurement; empty for one that does not."""
    if row.estimate_and_measurement is None:
        return ""
    estimate, measured = row.estimate_and_measurement
    ratio = estimate.peak_bytes / measured.peak_bytes if measured.peak_bytes else 1.0
    if abs(ratio - 1) <= _DISAGREEMENT:
        return ""
    sizes = f"estimate {gib_text(estimate.peak_bytes)}, measured {gib_text(measured.peak_bytes)}"
    return f"{row.nodeid}: {sizes}, ratio {ratio:.3f}; the estimate has {_differences(estimate, measured)}"


def _differences(one: MemoryReport, other: MemoryReport) -> str:
    """The components in which ``one`` and ``other`` differ most."""
    worst = [*component_changes(one.components, other.components).items()][:_COMPONENTS]
    return ", ".join(f"{gib_text(abs(size))} {'more' if size > 0 else 'less'} {name}" for name, size in worst)


def comparison_notices(compared: ComparedSession | None) -> list[str]:
    """Lines for the summary on versions that changed, removed and skipped tests."""
    compared = compared or ComparedSession()
    versions = versions_text(compared.distributions, most=_VERSIONS)
    return [
        *([f"installed since the base: {versions}"] if versions else []),
        *(f"{REMOVED} since the base: {nodeid}" for nodeid in compared.removed),
        *(f"skipped, and not at the base: {nodeid}" for nodeid in compared.skipped),
    ]


def small_line(results: Iterable[TestResult]) -> Iterator[str]:
    """The lines on tests whose budgets may hold to less than what is trained."""
    asked: dict[str, list[str]] = {}
    for row in results:
        for what in row.questions:
            asked.setdefault(what, []).append(row.nodeid)
    for what, found in sorted(asked.items()):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{what}, {SMALL}: {found[0]}{more}"
