"""Combines the answers of all ranks: all reports, or the first failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: How a rank without a figure can have ended. ``ENDED``: it was ended because another rank failed.
RAISED, DIED, HUNG, ENDED = "raised", "died", "hung", "ended"
#: Outcomes of a rank's answer after which the others are ended.
FAILURES = ("error", "out_of_memory")


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank has ended."""

    rank: int
    answer: dict[str, Any] | None
    """Its answer, as a worker's; None if it has none."""
    failure: str | None = None
    """How it failed; None if it did not."""
    number: int = 0
    """The position of its failure among those of all ranks, by time."""
    waits: bool = False
    """Whether it was in a collective: then another rank is the more likely cause."""
    reason: str = ""
    """Why it has no answer."""
    output: str = ""
    """The end of its output."""


def combined(ends: Sequence[RankEnd], world_size: int | None = None) -> dict[str, Any]:
    """One answer for the ``ends`` of all ranks, in the form of a worker's answer.

    ``world_size``: the number of ranks, if not all were run. ``reports`` has the reports there are. The
    outcome is ``traced`` or ``skipped`` if it is every rank's; otherwise that of the first failure, whose
    rank is ``failed_rank``.
    """
    ends = sorted(ends, key=lambda one: one.rank)
    answers = [one.answer for one in ends if one.answer is not None]
    found = {
        "reports": [answer["report"] for answer in answers if answer.get("report")],
        "device": next((answer["device"] for answer in answers if "device" in answer), ""),
        "properties": answers[0].get("properties", []) if answers else [],
        "has_snapshot": any(answer.get("has_snapshot", False) for answer in answers),
        "snapshot_error": next(filter(None, (answer.get("snapshot_error") for answer in answers)), ""),
    }
    return {**found, **_outcome(ends, world_size or len(ends))}


def _outcome(ends: Sequence[RankEnd], world_size: int) -> dict[str, Any]:
    failed = [one for one in ends if one.failure not in (None, ENDED)]
    failed = failed or [one for one in ends if (one.answer or {}).get("outcome") in FAILURES]
    if failed:
        first = min(failed, key=lambda one: (one.waits, one.number))
        return _failure(first, ends, world_size)
    for one in ends:
        if one.answer is None:
            return _failure(one, ends, world_size)
    answers = {one.rank: one.answer for one in ends if one.answer is not None}
    outcomes = {answer["outcome"] for answer in answers.values()}
    if outcomes == {"skipped"}:
        return {"outcome": "skipped", "reason": answers[ends[0].rank]["reason"]}
    if outcomes == {"traced"}:
        return {"outcome": "traced"}
    skipped = ", ".join(str(rank) for rank, answer in answers.items() if answer["outcome"] == "skipped")
    reason = f"of {world_size} ranks not all have skipped it, but these: {skipped}"
    return {"outcome": "error", "reason": reason}


def _failure(first: RankEnd, ends: Sequence[RankEnd], world_size: int) -> dict[str, Any]:
    """The failure of ``first`` with its last lines of output, and how the other ranks ended."""
    answer = first.answer or {"outcome": "error", "reason": first.reason}
    details = [answer.get("details", "")]
    if first.output:
        details.append(f"The last lines of rank {first.rank}:\n{first.output}")
    details += [f"Rank {one.rank} {_fate(one)}" for one in ends if one is not first]
    return {
        **{name: answer[name] for name in ("outcome", "where", "raised") if name in answer},
        "reason": f"rank {first.rank} of {world_size}: {answer['reason']}",
        "details": "\n".join(filter(None, details)),
        "failed_rank": first.rank,
    }


def _fate(one: RankEnd) -> str:
    if one.failure == ENDED:
        return "was ended because of it."
    if one.answer is None:
        return f"failed too: {one.reason}"
    if one.answer["outcome"] in FAILURES:
        return f"failed too: {one.answer['reason'].splitlines()[0]}"
    return "had skipped it." if one.answer["outcome"] == "skipped" else "had finished."
