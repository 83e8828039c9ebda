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
from ..ranks.launcher_environment import Joined, local_rank_of, ranks_of_environment
from .estimator import Estimate, Estimator, read_answer, request_for
from .order import CUDA, CUDA_GROUP, Order

#: Drivers reserve more or less of the same card for themselves (see gpus.yaml).
_SAME_CARD = 0.97
#: pytest-xdist sets it in its workers.
_XDIST_WORKER = "PYTEST_XDIST_WORKER"


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why there is no measurement of a test."""

    reason: str


class Measurer:
    """Asks workers on CUDA, and ranks; remembers why there is none.

    In a session that a launcher has started as one of several, a test with ``gpus=1`` runs in each of them,
    on the GPU of its local rank; those with more run as the launcher's ranks.
    """

    def __init__(
        self, order: Order, environment: Mapping[str, str], device: str = CUDA, backend: str = CUDA_GROUP
    ) -> None:
        """``device``: what makes the workers' device. ``backend``: of the ranks' process group."""
        self._environment = environment
        self._device_name, self._why_not = _own_device(environment)
        if device == CUDA:
            self._why_not = why_no_cuda(environment) or self._why_not
        is_launched = local_rank_of(environment) is not None
        self._order = replace(
            order, device=device, records=False, visible=self._device_name if is_launched else None
        )
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
            joined = self._joined() if budget.gpus > 1 else None
            with lock_gpus(self._names(budget, joined)):
                return self._measure_alone(key, file, budget, joined)
        except UsageMistake as error:
            return Estimate(Verdict(ERROR, str(error)))

    def close(self) -> None:
        """End the worker."""
        self._estimator.close()

    def _joined(self) -> Joined | None:
        joined = ranks_of_environment(self._environment)
        if joined is not None and _XDIST_WORKER in self._environment:
            raise UsageMistake(
                "a launcher has started this session as one rank of several, which all take the same tests "
                "in the same order; pytest-xdist does not: leave -n out, or write -n0"
            )
        return joined

    def _names(self, budget: Budget, joined: Joined | None) -> list[str]:
        """The devices that ``budget`` is measured on.

        What a launcher has started has GPUs of its own, and sessions that wait for one another must not
        wait for locks.
        """
        if joined is not None:
            return []
        return visible_names(self._environment, budget.gpus) if budget.gpus > 1 else [self._device_name]

    def _measure_alone(
        self, key: str, file: str, budget: Budget, joined: Joined | None
    ) -> Estimate | NotMeasured:
        """``measure`` while no other process measures on the same devices."""
        card = self._ask_for_card(file)
        reason = _unfit(card, budget if joined is None else replace(budget, gpus=1)) if card else None
        if reason is None and budget.gpus == 1:
            return self._estimator.estimate(key, file, budget)
        self._estimator.close()  # imports may have allocated on the device, which others measure on next
        if reason is not None:
            return NotMeasured(reason)
        return self._measure_ranks(key, file, budget, joined)

    def _ask_for_card(self, file: str) -> Mapping[str, Any] | None:
        """What a worker says of the device; None if there is no worker, which the test will tell."""
        if self._card is None:
            card = self._estimator.card_for(file)
            if card is None or "outcome" in card:
                return card
            self._card = card
        return self._card

    def _measure_ranks(self, key: str, file: str, budget: Budget, joined: Joined | None) -> Estimate:
        order = RanksOrder(
            args=self._order.args,
            dir=self._order.dir,
            gpus=budget.gpus,
            timeout=self._order.timeout,
            gpu=self._order.gpu,
            device=self._order.device,
            backend=self._backend,
            joined=joined,
        )
        request = request_for(key, file, budget, self._order.gpu)
        return read_answer(budget, measure_ranks(order, request))


def _own_device(environment: Mapping[str, str]) -> tuple[str, str | None]:
    """The name of the device for tests with ``gpus=1``, and why there is none."""
    local_rank = local_rank_of(environment) or 0
    names = visible_names(environment, local_rank + 1)
    if len(names) > local_rank:
        return names[local_rank], None
    if len(names) == 1:  # the launcher has shown each rank its own alone
        return names[0], None
    shown = environment.get("CUDA_VISIBLE_DEVICES")
    return "", f"no GPU for local rank {local_rank}: CUDA_VISIBLE_DEVICES={shown!r} shows {len(names)}"


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
