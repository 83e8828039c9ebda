"""The answers of all ranks as one: the reports of them all, or the failure that came first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: What can have become of a rank that gives no figure. ``ENDED``: it was, because of another.
RAISED, DIED, HUNG, ENDED = "raised", "died", "hung", "ended"
#: Outcomes of a rank's answer that end the others.
FAILURES = ("error", "out_of_memory")


@dataclass(frozen=True, slots=True)
class RankEnd:
    """What has become of one rank."""

    rank: int
    answer: dict[str, Any] | None
    """A worker's answer; None where it has none."""
    failure: str | None = None
    """How it failed; None where it did not."""
    number: int = 0
    """Of its failure among those of all ranks, in the order in which they came."""
    waits: bool = False
    """It was in a collective, so that others are rather to blame."""
    reason: str = ""
    """Where it has no answer, what has become of it."""
    output: str = ""
    """The last of what it has printed."""


def combined(ends: Sequence[RankEnd], world_size: int | None = None) -> dict[str, Any]:
    """One answer for the ``ends`` of all ranks, in a worker's words.

    ``world_size``: how many there are, where not all were asked. ``reports`` has a report of each rank that
    came so far. The outcome is ``traced`` if it is every rank's, ``skipped`` if each has skipped the test;
    else that of the failure that came first, whose rank is ``failed_rank``.
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
    """The failure of ``first`` with its last lines, and what has become of the other ranks."""
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
