"""Measures single tests where CUDA is: the same worker as for estimates, on the real device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .budget import Budget
from .cuda_presence import why_no_cuda
from .device_turn import device_turn
from .estimate import Estimate, Estimator
from .gpus import find_gpu
from .launch import CUDA, Order

#: Drivers reserve more or less of the same card for themselves (see gpus.yaml).
_SAME_CARD = 0.97


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why there is no measurement of a test."""

    reason: str


class Measurer:
    """Asks workers on CUDA; remembers why there is none."""

    def __init__(self, order: Order, environment: Mapping[str, str], device: str = CUDA) -> None:
        """``device``: what makes the workers' device."""
        self._estimator = Estimator(replace(order, device=device, records=False))
        self._environment = environment
        self._why_not = why_no_cuda(environment) if device == CUDA else None

    def measure(self, key: str, file: str, budget: Budget) -> Estimate | NotMeasured:
        """What the test ``key`` in ``file`` takes, held to its ``budget``."""
        if self._why_not is not None:
            return NotMeasured(self._why_not)
        with device_turn(self._environment):
            card = self._estimator.card_for(file)
            reason = _unfit(card, budget) if card is not None else None
            if reason is not None:
                return NotMeasured(reason)
            return self._estimator.estimate(key, file, budget)

    def close(self) -> None:
        """End the worker."""
        self._estimator.close()


def _unfit(card: Mapping[str, Any], budget: Budget) -> str | None:
    """Why a budget cannot be measured on ``card``."""
    if "outcome" in card:  # the process that asked the driver ended otherwise
        return f"no CUDA: the driver could not be asked: {card['reason'].splitlines()[0]}"
    count = card.get("count", 0)
    if count < 1:
        return "no CUDA: torch sees no device (is it a CPU build?)"
    if count < budget.gpus:
        return f"{count} CUDA devices, and gpus={budget.gpus}"
    total_bytes = card.get("total_bytes")
    if budget.gpu is not None and total_bytes is not None:
        wanted = find_gpu(budget.gpu)
        if total_bytes < _SAME_CARD * wanted.total_bytes:
            return f"the card here, {card['name']}, is smaller than gpu={budget.gpu!r}"
    return None
