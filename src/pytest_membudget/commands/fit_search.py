"""The search of ``membudget fit``: which values to try, their outcomes, and the result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..json_object import JsonObject

FITS: Final = "fits"
TOO_LARGE: Final = "too large"
FAILS: Final = "fails"
"""There is no figure: the test fails or skips itself for a reason other than memory."""

#: Values of one session while the value is doubled, and between two known ones. A session costs about as
#: much as a step or two.
_DOUBLINGS = 4
_BETWEEN = 3
#: The environment variable with the ``Variation`` of a session and its workers, in JSON.
VARIABLE: Final = "MEMBUDGET_FIT"


@dataclass(frozen=True, slots=True)
class Point(JsonObject):
    """A value on a card."""

    value: int
    gpu: str

    @property
    def id(self) -> str:
        """The end of the test's node id."""
        return f"{self.value}@{self.gpu}"


@dataclass(frozen=True, slots=True)
class Variation(JsonObject):
    """What is varied."""

    name: str
    """Of a parameter or fixture."""
    variant: str
    """What the test's node id has in brackets; empty without."""
    points: tuple[Point, ...]

    def variables(self) -> Mapping[str, str]:
        """The environment of the session."""
        return {VARIABLE: json.dumps(self.to_json())}


def variation_in(environment: Mapping[str, str]) -> Variation:
    """The inverse of ``Variation.variables``."""
    return Variation.from_json(json.loads(environment[VARIABLE]))


@dataclass(frozen=True, slots=True)
class Tried:
    """One value on one card."""

    value: int
    outcome: str
    """One of ``FITS``, ``TOO_LARGE`` and ``FAILS``."""
    peak_bytes: int | None = None
    """Allocated; None where the test did not run to its end."""
    reserved_bytes: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The result of a search."""

    largest: int | None
    """The largest value tried that fits; None if none does."""
    limit: Tried | None
    """The next value, which does not fit; None if ``most`` fits."""
    gaps: tuple[int, ...] = ()
    """Values below ``largest`` that do not fit: memory does not grow with the value everywhere."""


def next_values(tried: Mapping[int, Tried], step: int, most: int) -> list[int]:
    """The values to try next, multiples of ``step`` up to ``most``; empty at the end.

    Doubles the value up to the first that does not fit, then divides the interval. At the end the neighbours
    of the limit are tried too, which show whether the limit is one.
    """
    units = {value // step: one.outcome == FITS for value, one in tried.items()}
    last = most // step
    low = max((unit for unit, fits in units.items() if fits), default=0)
    high = min((unit for unit, fits in units.items() if not fits and unit > low), default=None)
    if high is None:
        times = range(1 if low else 0, _DOUBLINGS + bool(low))
        doubled = (min((low or 1) << number, last) for number in times)
        found = [unit for unit in dict.fromkeys(doubled) if unit not in units]
    elif high - low > 1:
        found = [low + (high - low) * part // (_BETWEEN + 1) for part in range(1, _BETWEEN + 1)]
    else:
        found = [low - 1, high + 1]
    return [unit * step for unit in dict.fromkeys(found) if 1 <= unit <= last and unit not in units]


def conclusion(tried: Mapping[int, Tried]) -> Conclusion:
    """The result of the values tried."""
    fitting = [value for value, one in tried.items() if one.outcome == FITS]
    largest = max(fitting, default=0)
    beyond = min((value for value in tried if value > largest), default=0)
    gaps = sorted(value for value in tried if value < largest and value not in fitting)
    return Conclusion(largest or None, tried.get(beyond), tuple(gaps))
