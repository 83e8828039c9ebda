"""Moment: what is allocated at one moment of a job, by component."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..units import MIB

#: cuBLAS's, of one thread, on Hopper (torch 2.13, CUDABlas.cpp).
WORKSPACE_BYTES: Final = 32 * MIB

Components = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Moment:
    """What is allocated at one moment, by component."""

    name: str
    components: Components

    @property
    def bytes(self) -> int:
        """All of it."""
        return round(sum(self.components.values()))
