"""Budget: what a test may take, as its marker says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .units import bytes_of_gib


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one test. At least one of ``gib``, ``gpu`` and ``components`` limits something."""

    gib: float | None = None
    """Budget a GPU, GiB."""
    gpus: int = 1
    gpu: str | None = None
    """A catalogued card; without ``gib`` the budget is what it can hold."""
    host_gib: float | None = None
    metric: str = "allocated"
    """Which total ``gib`` is held to: allocated, reserved or device."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Budgets of single components, GiB."""
    max_growth: str | None = None
    ranks: object = None
    scenario: str | None = None
    reason: str | None = None

    @property
    def limit_bytes(self) -> int | None:
        """``gib`` in bytes."""
        return bytes_of_gib(self.gib) if self.gib is not None else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only, in the order of report.json."""
        return {
            "gib": self.gib,
            "gpus": self.gpus,
            "gpu": self.gpu,
            "metric": self.metric,
            "host_gib": self.host_gib,
            "components": dict(self.components),
            "max_growth": self.max_growth,
            "reason": self.reason,
        }
