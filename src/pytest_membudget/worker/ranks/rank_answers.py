"""The answers of all ranks as one: the reports of them all, or the failure that came first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: What can have become of a rank that gives no figure. ``ENDED``: it was, because of another.
RAISED, DIED, HUNG, ENDED = "raised", "died", "hung", "ended"
#: Outcomes of a rank's answer that end the others.
FAILURES = ("error", "out_of_memory")


def entry(
    rank: int,
    answer: dict[str, Any] | None,
    *,
    failure: str | None = None,
    number: int = 0,
    waits: bool = False,
    reason: str = "",
    output: str = "",
) -> dict[str, Any]:
    """What is known of one rank, in plain JSON types.

    ``number`` counts the failures in the order in which they came. ``waits``: it was in a collective, so
    that others are rather to blame. ``reason``: where it has no answer, what has become of it.
    """
    return {
        "rank": rank,
        "answer": answer,
        "failure": failure,
        "number": number,
        "waits": waits,
        "reason": reason,
        "output": output,
    }


def combined(entries: Sequence[dict[str, Any]], world_size: int | None = None) -> dict[str, Any]:
    """One answer for the ``entries`` of all ranks, in a worker's words.

    ``world_size``: how many there are, where not all were asked. ``reports`` has a report of each rank that
    came so far. The outcome is ``traced`` if it is every rank's, ``skipped`` if each has skipped the test;
    else that of the failure that came first, whose rank is ``failed_rank``.
    """
    entries = sorted(entries, key=lambda one: int(one["rank"]))
    answers = [one["answer"] for one in entries if one["answer"] is not None]
    found = {
        "reports": [answer["report"] for answer in answers if answer.get("report")],
        "device": next((answer["device"] for answer in answers if "device" in answer), ""),
        "properties": answers[0].get("properties", []) if answers else [],
        "has_snapshot": any(answer.get("has_snapshot", False) for answer in answers),
        "snapshot_error": next(filter(None, (one.get("snapshot_error") for one in answers)), ""),
    }
    return {**found, **_outcome(entries, world_size or len(entries))}


def _outcome(entries: Sequence[dict[str, Any]], world_size: int) -> dict[str, Any]:
    failed = [one for one in entries if one["failure"] not in (None, ENDED)]
    failed = failed or [one for one in entries if (one["answer"] or {}).get("outcome") in FAILURES]
    if failed:
        first = min(failed, key=lambda one: (one["waits"], one["number"]))
        return _failure(first, entries, world_size)
    outcomes = [one["answer"]["outcome"] if one["answer"] else "none" for one in entries]
    if set(outcomes) == {"skipped"}:
        return {"outcome": "skipped", "reason": entries[0]["answer"]["reason"]}
    for wrong in (one for one in entries if one["answer"] is None):
        return _failure(wrong, entries, world_size)
    if set(outcomes) == {"traced"}:
        return {"outcome": "traced"}
    skipped = ", ".join(str(one["rank"]) for one in entries if one["answer"]["outcome"] == "skipped")
    reason = f"of {world_size} ranks not all have skipped it, but these: {skipped}"
    return {"outcome": "error", "reason": reason}


def _failure(first: dict[str, Any], entries: Sequence[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """The failure of ``first`` with its last lines, and what has become of the other ranks."""
    answer = first["answer"] or {"outcome": "error", "reason": first["reason"]}
    details = [answer.get("details", "")]
    if first["output"]:
        details.append(f"The last lines of rank {first['rank']}:\n{first['output']}")
    details += [f"Rank {one['rank']} {_fate(one)}" for one in entries if one is not first]
    return {
        **{name: answer[name] for name in ("outcome", "where", "raised") if name in answer},
        "reason": f"rank {first['rank']} of {world_size}: {answer['reason']}",
        "details": "\n".join(filter(None, details)),
        "failed_rank": first["rank"],
    }


def _fate(one: dict[str, Any]) -> str:
    if one["failure"] == ENDED:
        return "was ended because of it."
    if one["answer"] is None:
        return f"failed too: {one['reason']}"
    if one["answer"]["outcome"] in FAILURES:
        return f"failed too: {one['answer']['reason'].splitlines()[0]}"
    return "had skipped it." if one["answer"]["outcome"] == "skipped" else "had finished."
