"""Makes requests to workers of tests, and estimates of their answers."""

from __future__ import annotations

import os
from dataclasses import astuple, replace

from ...budgets.budget import Budget
from ...budgets.marked_test import MarkedTest
from ...budgets.node_ids import name_of_rank
from ...budgets.verdict import ERROR, OVER, SKIPPED, Verdict, judge
from ...hardware.machines import Machine, fullest_machine, gpus_a_machine
from ...memory_report import MemoryReport
from ...results.body_warning import BodyWarning
from ...results.estimator import result_of
from ...results.test_result import TestResult
from ..protocol import Answer, Request


def request_for(test: MarkedTest, budget: Budget, default_gpu: str, snapshot: str | None = None) -> Request:
    """The request for ``test``; ``snapshot``: where to write its snapshot."""
    request = {
        "key": test.key,
        "file": test.path,
        "gpu": budget.gpu or default_gpu,
        "limited": budget.gpu is not None,
        "metric": budget.metric,
        "snapshot": snapshot,
    }
    # for the cache of estimates: the worker reads the program from the file
    return request if test.program is None else {**request, "program": astuple(test.program)}


def of_rank(request: Request, rank: int, world_size: int, rank0_broadcasts: str = "") -> Request:
    """``request`` for one of several ranks; ``rank0_broadcasts``: what rank 0 has broadcast."""
    return {
        **request,
        "rank": rank,
        "world_size": world_size,
        "rank0_broadcasts": rank0_broadcasts,
        "snapshot": request["snapshot"] and name_of_rank(request["snapshot"], rank),
    }


def first_requests(request: Request, budget: Budget) -> list[Request]:
    """The first requests to send for ``request``; more may follow, depending on the answers."""
    if budget.gpus == 1:
        return [request]
    named = budget.named_ranks
    ranks = [0] if named is None or 0 in named else named  # the others need rank 0's broadcasts
    return [of_rank(request, rank, budget.gpus) for rank in ranks]


def read_answer(test: MarkedTest, answer: Answer, snapshot: str | None = None) -> TestResult:
    """The result of ``test`` by a worker's answer; by that of several ranks, with the reports that count.

    ``snapshot``: the path of the snapshot, relative to the report's folder.
    """
    budget = test.budget
    assert budget is not None
    found = answer.get("reports") or [answer[name] for name in ("report",) if name in answer]
    named = budget.named_ranks
    reports = sorted(map(MemoryReport.from_json, found), key=lambda report: report.rank)
    counted = tuple(report for report in reports if named is None or report.rank in named)
    machine = fullest_machine(counted, budget.gpus, gpus_a_machine(budget.gpus, os.environ))
    rank = answer.get("snapshot_rank")
    if snapshot is not None and rank is not None:
        snapshot = name_of_rank(snapshot, rank)
    verdict, details = _judged(budget, answer, counted, machine)
    return result_of(
        test,
        verdict,
        details=details,
        raised=answer["outcome"] == "error" and answer.get("raised", False),
        estimates=counted,
        properties=tuple((name, value) for name, value in answer.get("properties", ())),
        warnings=tuple(map(BodyWarning.from_json, answer.get("warnings", ()))),
        snapshot=snapshot if answer.get("has_snapshot", False) else None,
        snapshot_error=answer.get("snapshot_error", ""),
        host_bytes=machine.host_bytes if machine is not None and machine.host_bytes else None,
    )


def _judged(
    budget: Budget, answer: Answer, reports: tuple[MemoryReport, ...], machine: Machine | None
) -> tuple[Verdict, str]:
    """The verdict, and further lines on its reason."""
    outcome, reason, rank = answer["outcome"], answer.get("reason", ""), answer.get("failed_rank")
    details = answer.get("details", "")
    if outcome == "skipped":
        device = answer.get("device") or "the stand-in"
        verdict = judge(budget, reports, machine)
        if verdict.name == OVER:
            return replace(verdict, reason=f"{verdict.reason}, before it skipped itself: {reason}"), ""
        return Verdict(SKIPPED, f"skipped on {device}: {reason}"), ""
    if outcome == "error":
        first, _, rest = reason.partition("\n")
        return Verdict(ERROR, first, rank), "\n".join(filter(None, (rest, details)))
    if outcome == "out_of_memory":
        card = f"does not fit on {budget.gpu}" if budget.gpu else "out of memory"
        return Verdict(OVER, f"{card}: {reason}, at {answer['where']}", rank), details
    return judge(budget, reports, machine), ""
