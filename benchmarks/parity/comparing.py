"""What differs between the two devices in one phase of a piece of work, and whose fault it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .recording import Phase

PHASES = ("forward", "backward")

#: Whose fault a difference is. PyTorch's own code requests the stand-in's memory: by default it is right.
FAKE_FAULT = "fake tensors"
FAKE_LISTED = "fake tensors, listed in the report"
FAKE_ERROR = "fake tensors: an error"
STAND_IN_NOT_MODELLED = "stand-in: not modelled"
STAND_IN_ERROR = "stand-in: an error"
DATA = "data"


@dataclass(frozen=True, slots=True)
class Difference:
    """One phase of one piece of work that is not the same on both devices."""

    work: str
    """The operator, or the step."""
    sample: str
    phase: str
    fault: str
    note: str
    """An error's first line, or what is not modelled."""
    only_stand_in: tuple[int, ...] = ()
    """Sizes in bytes that only the stand-in was asked for, the largest first."""
    only_fake: tuple[int, ...] = ()
    """Sizes in bytes that only the device of fake tensors was asked for, the largest first."""
    stand_in_peak_bytes: int = 0
    fake_peak_bytes: int = 0


def compared(work: str, stand_in: Mapping[str, Any], fake: Mapping[str, Any]) -> list[Difference]:
    """The differences between two answers to the order ``work``, sample by sample."""
    ended = [answer.get("outcome") != "ok" for answer in (stand_in, fake)]
    if any(ended):
        if all(ended):
            return []
        answer, fault = (stand_in, STAND_IN_ERROR) if ended[0] else (fake, FAKE_ERROR)
        return [Difference(work, "", "forward", fault, first_line(answer.get("reason", "")))]
    notes = stand_in["not_modelled"], fake["not_modelled"]
    differences: list[Difference] = []
    for one, other in zip(stand_in["samples"], fake["samples"], strict=False):
        differences += _sample(work, one, other, notes)
    short = len(stand_in["samples"]) - len(fake["samples"])
    if short:
        fault = FAKE_ERROR if short > 0 else STAND_IN_ERROR
        differences.append(Difference(work, "", "forward", fault, f"{abs(short)} samples were not made"))
    return differences


def _sample(
    work: str,
    stand_in: Mapping[str, Any],
    fake: Mapping[str, Any],
    notes: tuple[Sequence[str], Sequence[str]],
) -> list[Difference]:
    if stand_in["error"] or fake["error"]:
        if stand_in["error"] and fake["error"]:
            return []  # a sample that is meant to fail, or that neither can run
        fault = STAND_IN_ERROR if stand_in["error"] else FAKE_ERROR
        phase = "backward" if (stand_in["error"] + fake["error"]).startswith("backward") else "forward"
        note = stand_in["error"] or fake["error"]
        return [Difference(work, stand_in["sample"], phase, fault, note)]
    differences = []
    for phase in PHASES:
        one, other = Phase.from_json(stand_in[phase]), Phase.from_json(fake[phase])
        only_stand_in, only_fake = _apart(one.requests_bytes, other.requests_bytes)
        if not only_stand_in and not only_fake and one.peak_bytes == other.peak_bytes:
            continue
        fault, note = whose_fault(notes[0], notes[1], [*fake["assumed"], *stand_in["assumed"]])
        peaks = (one.peak_bytes, other.peak_bytes)
        differences.append(
            Difference(work, stand_in["sample"], phase, fault, note, only_stand_in, only_fake, *peaks)
        )
    return differences


def whose_fault(
    stand_in_not_modelled: Sequence[str], fake_not_modelled: Sequence[str], assumed: Sequence[str]
) -> tuple[str, str]:
    """Whose fault a difference in bytes is, and what says so."""
    if assumed:
        return DATA, assumed[0]
    if stand_in_not_modelled:
        return STAND_IN_NOT_MODELLED, ", ".join(stand_in_not_modelled)
    if fake_not_modelled:
        return FAKE_LISTED, fake_not_modelled[0]
    return FAKE_FAULT, ""


def _apart(one: Sequence[int], other: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What each has that the other has not, the largest first; the order of requests does not count."""
    mine, others = Counter(one), Counter(other)
    return _falling(mine - others), _falling(others - mine)


def _falling(sizes: Counter[int]) -> tuple[int, ...]:
    return tuple(sorted(sizes.elements(), reverse=True))


def first_line(text: str) -> str:
    """Of an error's text, cut to what a table has room for."""
    return text.strip().partition("\n")[0][:200]
