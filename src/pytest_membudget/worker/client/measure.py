"""Measures single tests where CUDA is: the same worker as for estimates, on the real device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...budgets.budget import Budget
from ...budgets.verdict import ERROR, Verdict
from ...devices.cuda_presence import why_no_cuda
from ...devices.gpu_lock import lock_gpus, visible_names
from ...errors import UsageMistake
from ...hardware.gpus import find_gpu
from ..ranks.launch_ranks import RanksOrder, measure_ranks
from .estimator import Estimate, Estimator, read_answer, request_for
from .order import CUDA, CUDA_GROUP, Order

#: Drivers reserve more or less of the same card for themselves (see gpus.yaml).
_SAME_CARD = 0.97


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why there is no measurement of a test."""

    reason: str


class Measurer:
    """Asks workers on CUDA, and ranks; remembers why there is none."""

    def __init__(
        self, order: Order, environment: Mapping[str, str], device: str = CUDA, backend: str = CUDA_GROUP
    ) -> None:
        """``device``: what makes the workers' device. ``backend``: of the ranks' process group."""
        self._environment = environment
        self._why_not = why_no_cuda(environment) if device == CUDA else None
        self._order = replace(order, device=device, records=False)
        self._backend = backend
        self._estimator = Estimator(self._order)
        self._card: Mapping[str, Any] | None = None

    @property
    def card_name(self) -> str | None:
        """The card that was measured on, as the driver calls it; None while it has not been asked."""
        name = (self._card or {}).get("name")
        return str(name) if name is not None else None

    def measure(self, key: str, file: str, budget: Budget) -> Estimate | NotMeasured:
        """What the test ``key`` in ``file`` takes, held to its ``budget``; host memory is not measured."""
        if self._why_not is not None:
            return NotMeasured(self._why_not)
        if not budget.limits_card:
            return NotMeasured("its budget is of host memory alone")
        budget = replace(budget, host_gib=None)
        try:
            with lock_gpus(visible_names(self._environment, 1)):
                found = self._measure_on_one(key, file, budget)
            return found if found is not None else self._measure_ranks(key, file, budget)
        except UsageMistake as error:
            return Estimate(Verdict(ERROR, str(error)))

    def close(self) -> None:
        """End the worker."""
        self._estimator.close()

    def _measure_on_one(self, key: str, file: str, budget: Budget) -> Estimate | NotMeasured | None:
        """``measure`` on the first device; None for a test with several GPUs, which there are."""
        is_first = self._card is None
        card = self._ask_for_card(file)
        reason = _unfit(card, budget) if card else None
        if reason is None and budget.gpus == 1:
            return self._estimator.estimate(key, file, budget)
        if is_first:  # imports may have allocated on the device, which others measure on next
            self._estimator.close()
        return NotMeasured(reason) if reason is not None else None

    def _ask_for_card(self, file: str) -> Mapping[str, Any] | None:
        """What a worker says of the device; None if there is no worker, which the test reports."""
        if self._card is None:
            card = self._estimator.card_for(file)
            if card is None or "outcome" in card:
                return card
            self._card = card
        return self._card

    def _measure_ranks(self, key: str, file: str, budget: Budget) -> Estimate:
        order = RanksOrder(
            args=self._order.args,
            dir=self._order.dir,
            gpus=budget.gpus,
            timeout=self._order.timeout,
            gpu=self._order.gpu,
            device=self._order.device,
            backend=self._backend,
        )
        request = request_for(key, file, budget, self._order.gpu)
        with lock_gpus(visible_names(self._environment, budget.gpus)):
            return read_answer(budget, measure_ranks(order, request))


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
