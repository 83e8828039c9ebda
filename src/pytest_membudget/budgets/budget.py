"""Budget: what a test may take, as its marker says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..units import bytes_of_gib


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one test: ``gib``, ``gpu``, ``host_gib``, ``components`` or ``max_growth`` at least."""

    gib: float | None = None
    """Budget a GPU, GiB."""
    gpus: int = 1
    """Ranks that the test runs as, each on a GPU of its own."""
    gpu: str | None = None
    """A catalogued card; without ``gib`` the budget is what it can hold."""
    host_gib: float | None = None
    """Budget of a machine's host memory, GiB: what all of its ranks hold there together."""
    metric: str = "allocated"
    """Which total ``gib`` is held to: allocated, reserved or device."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Budgets of single components, GiB."""
    max_growth: str | None = None
    """What it may grow by since the base of a comparison."""
    ranks: object = "all"
    """Those that the budget is held to: ``"first"``, ``"last"``, a number or several; ``"all"`` or None."""
    scenario: str | None = None
    reason: str | None = None

    @property
    def limit_bytes(self) -> int | None:
        """``gib`` in bytes."""
        return bytes_of_gib(self.gib) if self.gib is not None else None

    @property
    def limits_card(self) -> bool:
        """Whether it limits what is on a GPU; else it is of host memory alone."""
        if self.gib is not None or self.gpu is not None or self.components:
            return True
        return self.max_growth is not None and self.host_gib is None

    @property
    def is_of_growth_alone(self) -> bool:
        """Whether nothing but a comparison with a base checks it."""
        limits = self.gib is not None or self.gpu is not None or self.host_gib is not None
        return self.max_growth is not None and not limits and not self.components

    @property
    def named_ranks(self) -> tuple[int, ...] | None:
        """The ranks that ``ranks`` names, in order; None where it is all of them."""
        if self.ranks in (None, "all"):
            return None
        if self.ranks in ("first", "last"):
            return (0 if self.ranks == "first" else self.gpus - 1,)
        if isinstance(self.ranks, int):
            return (self.ranks,)
        return tuple(sorted(set(cast(Iterable[int], self.ranks))))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only, in the order of report.json."""
        named = self.named_ranks
        return {
            "gib": self.gib,
            "gpus": self.gpus,
            "ranks": list(named) if named is not None else None,
            "gpu": self.gpu,
            "metric": self.metric,
            "host_gib": self.host_gib,
            "components": dict(self.components),
            "max_growth": self.max_growth,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Budget:
        """The inverse of ``to_json``, but for the scenario, which reports do not have."""
        return cls(**{name: value for name, value in data.items() if name in cls.__slots__})
