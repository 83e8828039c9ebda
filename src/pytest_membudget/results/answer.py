"""Request and Answer: what a worker is asked for one test, and what it says; and the result that it makes.

Each has one JSON form, in which it goes from process to process, and in which the cache keeps it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..budgets.budget import Budget
from ..budgets.marked_test import MarkedTest, Program
from ..budgets.node_ids import name_of_rank
from ..budgets.verdict import ERROR, FIGURES, OUT_OF_MEMORY, OVER, SKIPPED, Verdict, judge
from ..caveats import Caveat
from ..hardware.machines import Machine, fullest_machine, gpus_a_machine
from ..json_object import JsonObject
from ..memory_report import MemoryReport
from .body_warning import BodyWarning
from .estimator import result_of
from .test_result import TestResult

TRACED: Final = "traced"
"""The test has run to its end."""
FAILED: Final = "error"


@dataclass(frozen=True, slots=True)
class Request(JsonObject):
    """One run of one test; several of the same are one, and have one answer."""

    key: str
    """Identifies the test, as of ``MarkedTest``."""
    file: str
    gpu: str
    limited: bool
    """Whether the card is the budget's: PyTorch runs out of memory where it would."""
    metric: str
    snapshot: str | None = None
    """Where to write its snapshot."""
    program: Program | None = None
    """What the file says of a script, for the cache: the worker reads the file."""
    rank: int = 0
    world_size: int = 1
    received: str = ""
    """What ranks that ran before have broadcast, as their answers say, as JSON by rank."""
    launched: bool = False
    """Whether it has the variables that a launcher sets, on its one GPU."""
    change: str | None = None
    """The name of a change that is tried."""
    variant: int = 0
    """How what nobody knows is answered: 0 as is plausible, 1, 2 and those of ``varied`` otherwise."""
    steady: tuple[str, ...] = ()
    """Where it is answered as is plausible all the same: lines, as ``file:line``, or what ``varied`` has."""
    has_components: bool = False
    """Whether its budget limits components: what memory is for counts in each run."""
    figures_only: bool = False
    """Whether what memory is for, and where, is not asked for: such a run takes half the time."""
    varies_imports: bool = False
    """Whether files are imported anew for it, and are answered as its variant has it."""

    @classmethod
    def of(cls, test: MarkedTest, budget: Budget, default_gpu: str, snapshot: str | None = None) -> "Request":
        """What estimates ``test``."""
        gpu, is_limited = budget.gpu or default_gpu, budget.gpu is not None
        return cls(
            *(test.key, test.path, gpu, is_limited, budget.metric, snapshot, test.program),
            launched=test.names_gpus and budget.gpus == 1,
            has_components=bool(budget.components),
        )

    def of_rank(self, rank: int, world_size: int, received: str = "") -> "Request":
        """The same for one of several ranks."""
        snapshot = self.snapshot and name_of_rank(self.snapshot, rank)
        return replace(self, snapshot=snapshot, rank=rank, world_size=world_size, received=received)


#: Ends the name of a group in which objects are gathered.
GATHERED: Final = " gathered"


@dataclass(frozen=True, slots=True)
class OtherRanks(JsonObject):
    """Which ranks run after rank 0, so that the worst is known, by what it has done."""

    representatives: tuple[int, ...] = ()
    """Those that must run."""
    tried: tuple[int, ...] = ()
    """Of them those without another reason than that the code asks for its rank."""
    caveats: tuple[Caveat, ...] = ()
    """What is assumed of the ranks that do not run."""


@dataclass(frozen=True, slots=True)
class Answer(JsonObject):
    """How one run has ended; of several ranks, how all of them have."""

    outcome: str
    """``traced``, ``out_of_memory``, ``skipped`` or ``error``."""
    reason: str = ""
    details: str = ""
    """Further lines on the reason."""
    where: str = ""
    """The line that ran out of memory."""
    raised: bool = False
    """Whether the test's own code raised."""
    reports: tuple[MemoryReport, ...] = ()
    """One for each rank."""
    device: str = ""
    """The device's name in messages."""
    properties: tuple[tuple[str, Any], ...] = ()
    warnings: tuple[BodyWarning, ...] = ()
    has_snapshot: bool = False
    snapshot_error: str = ""
    changed: str = ""
    """What a change has changed; empty if it was not applicable, and if the test failed with it."""
    other_ranks: OtherRanks = OtherRanks()
    """After rank 0's run."""
    failed_rank: int | None = None
    """The rank that failed first."""
    snapshot_rank: int | None = None
    """The rank that takes most of those with a snapshot."""
    failed_at: float | None = None
    """When a rank failed, comparable among the processes of a machine."""
    unknown: tuple[str, ...] = ()
    """Why other variants may give another figure: texts of ``varied``, and what the host has drawn or got."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Where numbers were read: sizes of allocations in bytes, with how many there were at once."""
    allocations: str = ""
    """A digest of its allocations, in order; empty where no other run is to be compared."""
    last_read: str = ""
    """The line of the last read of what nobody knows, as ``file:line``."""
    is_last: bool = False
    """Whether its process ends with it."""
    seen: Mapping[str, Any] | None = None
    """What the run has read, for the cache."""
    broadcasts: str = ""
    """What it has broadcast and given to the others, in order, as JSON: the group, what is gathered with
    ``GATHERED`` after it, and the values."""
    has_exchanged: bool = False
    """Whether it has sent values to others, or asked for theirs; else it needs none of them."""
    unheard: tuple[int, ...] = ()
    """The ranks whose values may decide what it did, and of which it got nothing."""
    taken: str = ""
    """What it took for all that others send, in order, as JSON: how often it had sent itself by then, the
    sender, the group, and the values: None for what it received, with None for each that decides nothing."""
    has_met: bool = False
    """Whether the test has asked for a process group, or for a collective."""

    @property
    def has_figure(self) -> bool:
        """Whether it says what the test takes: it ran to its end, or out of memory."""
        return self.outcome in FIGURES

    @property
    def report(self) -> MemoryReport | None:
        """The report of its one rank."""
        return self.reports[0] if self.reports else None

    @property
    def own_report(self) -> MemoryReport:
        """The same of an answer that has one."""
        assert self.report is not None
        return self.report

    @property
    def peak_bytes(self) -> int:
        """The peak of its one rank; 0 without a report."""
        return self.report.peak_bytes if self.report is not None else 0

    @property
    def host_bytes(self) -> int:
        """The peak of its one rank's host memory; 0 where that is not known."""
        return self.report.host_bytes if self.report is not None else 0


def failed(reason: str, **more: Any) -> Answer:
    """The answer of a test without a figure."""
    return Answer(FAILED, reason, **more)


def read_answer(test: MarkedTest, answer: Answer, snapshot: str | None = None) -> TestResult:
    """The result of ``test`` by ``answer``.

    ``snapshot``: the path of the snapshot, relative to the report's folder.
    """
    budget = test.budget
    assert budget is not None
    reports = tuple(sorted(answer.reports, key=lambda report: report.rank))
    machine = fullest_machine(reports, budget.gpus, gpus_a_machine(budget.gpus, os.environ))
    if snapshot is not None and answer.snapshot_rank is not None:
        snapshot = name_of_rank(snapshot, answer.snapshot_rank)
    verdict, details = _judged(budget, answer, reports, machine)
    return result_of(
        test,
        verdict,
        details=details,
        raised=answer.outcome == FAILED and answer.raised,
        estimates=reports,
        properties=answer.properties,
        warnings=answer.warnings,
        snapshot=snapshot if answer.has_snapshot else None,
        snapshot_error=answer.snapshot_error,
        host_bytes=machine.host_bytes if machine is not None and machine.host_bytes else None,
    )


def _judged(
    budget: Budget, answer: Answer, reports: tuple[MemoryReport, ...], machine: Machine | None
) -> tuple[Verdict, str]:
    """The verdict, and further lines on its reason."""
    reason, rank, details = answer.reason, answer.failed_rank, answer.details
    if answer.outcome == SKIPPED:
        device = answer.device or "the stand-in"
        verdict = judge(budget, reports, machine)
        if verdict.name == OVER:
            return replace(verdict, reason=f"{verdict.reason}, before it skipped itself: {reason}"), ""
        return Verdict(SKIPPED, f"skipped on {device}: {reason}"), ""
    if answer.outcome == FAILED:
        first, _, rest = reason.partition("\n")
        return Verdict(ERROR, first, rank), "\n".join(filter(None, (rest, details)))
    if answer.outcome == OUT_OF_MEMORY:
        card = f"does not fit on {budget.gpu}" if budget.gpu else "out of memory"
        return Verdict(OVER, f"{card}: {reason}, at {answer.where}", rank), details
    return judge(budget, reports, machine), ""
