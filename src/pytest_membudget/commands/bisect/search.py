"""Binary search for the first bad point between a good one and a bad one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

GOOD: Final = "good"
BAD: Final = "bad"
SKIP: Final = "skip"


@dataclass(frozen=True, slots=True)
class Found:
    """Two points, by their numbers, between which the figure grew."""

    good: int
    bad: int

    @property
    def is_one_step(self) -> bool:
        """Whether ``bad`` is the first bad point; else those between the two have no figure."""
        return self.bad - self.good == 1


def first_bad(count: int, state_of: Callable[[int], str]) -> Found:
    """Search ``count`` points, of which the first is good and the last is bad.

    ``state_of(number)`` is ``good``, ``bad`` or ``skip``, and is called once for each point that is tried. A
    point that is skipped is never taken for good: its neighbours are tried. If figures go up and down, the
    result is one of the steps up.
    """
    good, bad, skipped = 0, count - 1, set[int]()
    while True:
        left = [number for number in range(good + 1, bad) if number not in skipped]
        if not left:
            return Found(good, bad)
        middle = min(left, key=lambda number: abs(2 * number - good - bad))
        state = state_of(middle)
        if state == SKIP:
            skipped.add(middle)
        elif state == GOOD:
            good = middle
        else:
            bad = middle
