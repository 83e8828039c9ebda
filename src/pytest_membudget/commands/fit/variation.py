"""What ``membudget fit`` varies: the values, in an environment variable for the session and its workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

#: The variable, whose value is JSON.
VARIABLE: Final = "MEMBUDGET_FIT"


@dataclass(frozen=True, slots=True)
class Point:
    """A value on a card."""

    value: int
    gpu: str

    @property
    def id(self) -> str:
        """The end of the test's node id."""
        return f"{self.value}@{self.gpu}"


@dataclass(frozen=True, slots=True)
class Variation:
    """What is varied."""

    name: str
    """Of a parameter or fixture."""
    variant: str
    """What the test's node id has in brackets; empty without."""
    points: Sequence[Point]

    def variables(self) -> Mapping[str, str]:
        """The environment of the session."""
        return {VARIABLE: json.dumps(asdict(self))}


def variation_in(environment: Mapping[str, str]) -> Variation:
    """The inverse of ``Variation.variables``."""
    read = json.loads(environment[VARIABLE])
    return Variation(read["name"], read["variant"], [Point(**point) for point in read["points"]])
