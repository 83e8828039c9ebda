"""TestResult: budget, figures and verdict of one test; in JSON, a row of report.json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final

from ..budgets.budget import Budget
from ..budgets.verdict import ERROR, OVER, UNDECIDED, UNSET, VERDICTS, WITHIN, Part, parts_of, suggested_gib
from ..caveats import (
    COMPONENT_DEPENDS,
    HELD_DEPENDS,
    HOST_DEPENDS,
    METHOD,
    METRIC_DEPENDS,
    MISSING,
    UNCHECKED,
    UNTRAINED,
    Cause,
    Caveat,
)
from ..json_object import JsonObject, Lines
from ..memory_report import MemoryReport
from ..names import MARKER
from ..units import gib_text, signed_size
from ..user_input.kinds import choice
from ..user_input.nodes import PYTHON, YAML, Syntax
from .advice import Advice
from .body_warning import BodyWarning
from .comparison import GROWN, Comparison, Finding, LockCheck, LockEntry, component_changes, versions_text

#: A figure below this share of its budget gets a footnote: the test may not run what it is for.
_SMALL: Final = 100
#: The state of a test that has grown, and does not fail by it.
ALLOWED_GROWTH: Final = f"{GROWN} and allowed"
VerdictName = Annotated[str, choice(VERDICTS)]


@dataclass(frozen=True, slots=True)
class TestResult(JsonObject):
    """One test: its budget, figures and verdict. Immutable: measuring and comparing return new values."""

    #: pytest would collect the class for its name
    __test__: ClassVar[bool] = False
    required: ClassVar[tuple[str, ...]] = ("estimates",)
    unreported: ClassVar[tuple[str, ...]] = ("warnings", "snapshot_error")
    """What pytest's summary says: for processes of a session alone, and not in report.json."""

    nodeid: str
    """pytest's name of the test."""
    location: str
    """``file:line`` of the test, from pytest's root folder."""
    verdict: VerdictName
    """Whether it keeps to its budget."""
    reason: Lines
    """The reason of the verdict, in one line."""
    budget: Budget | None = None
    """None if the mark has a mistake."""
    limit_bytes: int | None = None
    """The limit of the budget's metric on each GPU; None without one."""
    details: Lines = ""
    """Further lines on the reason."""
    raised: bool = False
    """Whether there is no figure because the test's own code raised."""
    rank: int | None = None
    """Of several ranks, the one that decides the verdict."""
    host_bytes: int | None = None
    """Host memory of the machine whose ranks hold most of it; None if it is not known."""
    cached: bool = False
    """Whether the estimate comes from the cache."""
    estimates: tuple[MemoryReport, ...] = ()
    """A report of each rank."""
    measurements: tuple[MemoryReport, ...] = ()
    """The same, on CUDA."""
    not_measured: Lines = ""
    """Why it was not measured."""
    properties: tuple[tuple[str, Any], ...] = ()
    """Properties that the test recorded with ``record_property``."""
    snapshot: str | None = None
    """The path of its memory snapshot, relative to the report's folder."""
    snapshot_error: str = ""
    """Why the snapshot could not be written."""
    expected: bool = False
    """Whether the test has failed and its xfail mark expects that."""
    comparison: Comparison | None = None
    """The comparison with the base; None if nothing was compared."""
    advice: Advice | None = None
    """The changes that were tried to reduce its memory; None if none were."""
    lock: LockCheck | None = None
    """With its entry in the lock file; None where it has a ``gib``, no figure, or there is no such file."""
    without_strict: VerdictName | None = None
    """The verdict before ``--membudget-strict`` made it an error; None if it did not."""
    selected: bool = False
    """Whether it has no mark: ``--membudget=all`` or ``[tool.membudget] tests`` selects it."""
    warnings: tuple[BodyWarning, ...] = ()
    """The warnings of the test's body."""

    @property
    def file(self) -> str:
        """Of ``location``."""
        return self.location.rpartition(":")[0]

    @property
    def status(self) -> str | None:
        """The status of the comparison; None if nothing was compared."""
        return self.comparison.status if self.comparison is not None else None

    @property
    def state(self) -> str | None:
        """What has become of it since the base, in words; None if nothing was compared."""
        if self.comparison is not None and self.comparison.allowed:
            return "over at the base too"
        return ALLOWED_GROWTH if self.status == GROWN and not self.exceeds else self.status

    @property
    def since_base(self) -> Comparison | None:
        """The comparison, if the base has a figure."""
        return self.comparison if self.comparison and self.comparison.base_bytes is not None else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What explains the growth since the base, the largest first; empty if nothing is known."""
        return self.comparison.findings if self.comparison is not None else ()

    @property
    def growth_bytes(self) -> int:
        """By how many bytes it has grown since the base; 0 if that is not known."""
        return self.comparison.growth_bytes if self.comparison is not None else 0

    @property
    def has_outgrown_lock(self) -> bool:
        """Whether it takes more than its entry in the lock file."""
        return self.lock is not None and self.lock.status == GROWN and not self.lock.recorded

    @property
    def exceeds(self) -> bool:
        """Whether the test takes more than its budget allows, or more than at the base."""
        return self._takes_more and not (self.lock is not None and self.lock.allowed)

    @property
    def _takes_more(self) -> bool:
        allowed = self.comparison.allowed if self.comparison is not None else None
        if self.verdict == OVER:
            return allowed is not True
        return self.verdict in (WITHIN, UNDECIDED) and allowed is False

    @property
    def excused_until(self) -> str | None:
        """The last day on which its entry in the lock file lets it take more; None where it needs none."""
        entry = self.lock.base if self.lock is not None and self.lock.allowed else None
        return entry.until if entry is not None and self._takes_more else None

    @property
    def fails(self) -> bool:
        """Whether the test makes the build fail."""
        return (self.verdict == ERROR or self.exceeds) and not self.expected

    @property
    def reason_line(self) -> str:
        """Why the test ends as it does, in one line."""
        if self.comparison is None or self.comparison.allowed is not False:
            return self.reason
        versions = versions_text(self.comparison.distributions)
        return f"{GROWN}{versions and f' with {versions}'}: {self.comparison.reason}"

    @property
    def syntax(self) -> Syntax:
        """How its budget is written: in a mark, or in an entry of a YAML file."""
        return YAML if self.file.endswith((".yaml", ".yml")) else PYTHON

    @property
    def limit_to_write(self) -> str:
        """A limit that its figure keeps to, as it is written where its budget is; empty without a figure."""
        if self.figure is None:
            return ""
        gib = suggested_gib(self.figure.bound_bytes(self.figure.peak_bytes))
        limit = self.syntax.pair.format("gib", f"{gib:g}")
        return f"@pytest.mark.{MARKER}({limit})" if self.selected else limit

    @property
    def gpus(self) -> int:
        """The number of ranks that the test runs as."""
        return self.budget.gpus if self.budget is not None else 1

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The caveats of the verdict, each once: the estimates', unless the budget was measured."""
        limits_host = self.budget is not None and self.budget.host_gib is not None
        is_measured = self.measurements and not limits_host  # which is not measured
        reports = self.measurements if is_measured else self.estimates
        return tuple(dict.fromkeys(caveat for report in reports for caveat in report.caveats))

    @property
    def unchecked_caveats(self) -> tuple[Caveat, ...]:
        """The caveats that ``--membudget-strict`` fails."""
        return tuple(
            one
            for one in self.caveats
            if (one.kind in (MISSING, UNCHECKED) and not self._has_room_for(one.cause))
            or self._limits.get(one.cause, False)
        )

    @property
    def _limits(self) -> Mapping[Cause, bool]:
        """What is a question only where the budget limits it, and whether it does."""
        budget = self.budget or Budget()
        return {
            HOST_DEPENDS: budget.host_gib is not None,
            HELD_DEPENDS: budget.held_gib is not None or budget.max_growth is not None,
            COMPONENT_DEPENDS: bool(budget.components),
            METRIC_DEPENDS: False,
        }

    def concerns(self, caveat: Caveat) -> bool:
        """Whether ``caveat`` is about what the budget limits."""
        return self._limits.get(caveat.cause, True)

    def _has_room_for(self, cause: Cause) -> bool:
        """Whether the budget has room for the most that is missing by ``cause``."""
        budget, figure, most = self.budget, self.figure, cause.most_bytes
        if budget is None or figure is None or most is None or self.limit_bytes is None:
            return False
        is_bounded = budget.gib is not None and budget.metric == "allocated" and not budget.components
        return is_bounded and figure.peak_bytes + most <= self.limit_bytes

    @property
    def mark(self) -> str:
        """An asterisk if the test is within its budget and its estimate has caveats that count."""
        rests = any(one.kind != METHOD and self.concerns(one) for one in self.caveats)
        return "*" if self.verdict == WITHIN and rests else ""

    @property
    def is_small(self) -> bool:
        """Whether it takes under 1% of its mark's ``gib``, not of a card: it may not run what it is for."""
        figure, limit = self.figure, self.limit_bytes
        is_cards = self.budget is not None and self.budget.gib is None
        if self.verdict != WITHIN or figure is None or limit is None or is_cards:
            return False
        return figure.peak_bytes * _SMALL < limit

    @property
    def questions(self) -> Sequence[str]:
        """Why its budget may hold to less than what is trained; of what raised, only that it is small."""
        found = ["under 1% of the budget"] if self.is_small else []
        if not self.raised and any(caveat.cause is UNTRAINED for caveat in self.caveats):
            found.append("an optimizer, and no backward ran")
        if self.verdict == WITHIN and self.budget is not None and self.figure is not None:
            taken = [one.components for one in self.estimates or self.measurements]
            limited = (name for name, gib in self.budget.components.items() if gib)
            none = [name for name in limited if not any(one.get(name) for one in taken)]
            found += (f"a limit of {name}, and there are none" for name in none)
        return found

    @property
    def worst_estimate(self) -> MemoryReport | None:
        """The estimate of the rank that takes most."""
        return _largest(self.estimates)

    @property
    def worst_measurement(self) -> MemoryReport | None:
        """The measurement of the rank that takes most."""
        return _largest(self.measurements)

    @property
    def figure(self) -> MemoryReport | None:
        """The figure that reports show, of the rank that takes most: measured, else estimated.

        None for 0, and of a test whose body has raised: it ended before its peak, perhaps.
        """
        found = self.worst_measurement or self.worst_estimate
        return found if found is not None and found.peak_bytes and not self.raised else None

    @property
    def over(self) -> Part | None:
        """What is over its budget, as ``judge`` looks for it; None if nothing is, or there is no figure."""
        figure, budget, limit_bytes = self.figure, self.budget, self.limit_bytes
        if figure is None:
            return None
        if limit_bytes is not None and figure.peak_bytes > limit_bytes:  # the budget's, or the lock file's
            return Part("gib", "", limit_bytes, figure)
        reports = self.measurements or self.estimates
        parts = parts_of(budget, reports, self.host_bytes) if budget is not None else ()
        return next((part for part in parts if part.of and part.excess_bytes > 0), None)

    @property
    def estimate_of_verdict(self) -> MemoryReport | None:
        """The estimate of the rank that decides the verdict; without one, of the rank that takes most."""
        return _of_rank(self.estimates, self.rank) or self.worst_estimate

    @property
    def estimate_and_measurement(self) -> tuple[MemoryReport, MemoryReport] | None:
        """The largest measurement, and the estimate of its rank (else the largest one), estimate first.

        None where there is no estimate or no measurement.
        """
        worst, measurement = self.worst_estimate, self.worst_measurement
        if worst is None or measurement is None:
            return None
        return _of_rank(self.estimates, measurement.rank) or worst, measurement


def with_measurement(result: TestResult, measured: TestResult) -> TestResult:
    """``result`` with the figures of ``measured``, whose verdict replaces another one."""
    both = replace(result, measurements=measured.estimates)
    if measured.verdict == result.verdict != UNSET:
        return both
    reason = f"measured on CUDA: {measured.reason}"
    details, rank = measured.details, measured.rank
    return replace(both, verdict=measured.verdict, reason=reason, details=details, rank=rank)


def with_lock(result: TestResult, check: LockCheck) -> TestResult:
    """``result`` with its entry in the lock file, which limits what it may take."""
    locked = replace(result, lock=check)
    if check.allowed is False:
        return _without_excuse(locked, check)
    if locked.has_outgrown_lock:
        details = "\n".join(["What has changed since the lock file:", *_changes(result, check.base)])
        return replace(
            locked, verdict=OVER, reason=check.reason, details=details, limit_bytes=check.limit_bytes
        )
    if result.verdict != UNSET:
        return locked
    if not check.holds:
        return replace(locked, reason=f"{result.reason}; {check.reason}")
    return replace(locked, verdict=WITHIN, reason=check.reason, limit_bytes=check.limit_bytes)


def _changes(result: TestResult, entry: LockEntry | None) -> Iterator[str]:
    """A line for each component of ``result`` that has changed since ``entry``, the largest change first."""
    figure = result.worst_estimate
    if figure is None or entry is None:
        return
    for name, size in component_changes(figure.components, entry.components).items():
        yield f"  {signed_size(size)} {name}, from {gib_text(entry.components.get(name, 0))}"


def _without_excuse(locked: TestResult, check: LockCheck) -> TestResult:
    """``locked``, whose entry no longer holds, or allows less: the budget decides, if there is one."""
    if locked.verdict == OVER:
        return replace(locked, reason=f"{locked.reason}; {check.reason}")
    if locked.budget is None or locked.budget.gib is not None:
        return locked
    return replace(locked, verdict=OVER, reason=check.reason, limit_bytes=check.limit_bytes)


def with_comparison(result: TestResult, comparison: Comparison | None) -> TestResult:
    """``result`` with its comparison, which is all that checks a budget of growth alone."""
    compared = replace(result, comparison=comparison)
    limits_growth = result.budget is not None and result.budget.max_growth is not None
    if comparison is None or result.verdict != UNSET or not limits_growth:
        return compared
    if comparison.base_bytes is None:
        return replace(compared, reason=f"not compared: {comparison.reason}; {result.reason}")
    return replace(compared, verdict=WITHIN, reason="")


def _largest(reports: Sequence[MemoryReport]) -> MemoryReport | None:
    return max(reports, key=lambda report: report.peak_bytes, default=None)


def _of_rank(reports: Sequence[MemoryReport], rank: int | None) -> MemoryReport | None:
    return next((report for report in reports if report.rank == rank), None)
