"""The estimators of a session: one for each kind and number of cards that its tests are to find."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from ...budgets.budget import Budget
from ...budgets.settings import STAND_IN
from ...cache.estimates import EstimateCache
from ...devices.choice import DeviceChoice
from ...hardware.gpus import find_gpu
from ...hardware.machines import gpus_a_machine
from .estimator import Estimator
from .order import STAND_IN as ON_STAND_IN
from .order import VIRTUAL, Order


class Estimators:
    """Workers on the device of fake tensors serve any card; on the stand-in a process has its cards for good.

    PyTorch asks for the number and the properties of its cards once, perhaps while modules are imported.
    """

    def __init__(
        self,
        order: Callable[[], Order],
        choice: DeviceChoice,
        cache_for: Callable[[Order], EstimateCache | None],
    ) -> None:
        """``order``: with the files that are known by now, for the session's default card.

        ``cache_for``: of the estimates of an order's workers.
        """
        self._order = order
        self._choice = choice
        self._cache_for = cache_for
        self._estimators: dict[tuple[str, str, int], Estimator] = {}
        self._caches: list[EstimateCache] = []

    @property
    def cache_trouble(self) -> str:
        """Why estimates could not be kept; empty if they could."""
        return next((cache.trouble for cache in self._caches if cache.trouble), "")

    def for_budget(self, budget: Budget) -> Estimator:
        """The estimator for tests with ``budget``."""
        order = self._order_for(budget.gpu, gpus_a_machine(budget.gpus, os.environ))
        key = (order.device, order.gpu, order.cards)
        if key not in self._estimators:
            cache = self._cache_for(order)
            self._caches += [cache] if cache is not None else []
            self._estimators[key] = Estimator(order, cache)
        return self._estimators[key]

    def close(self) -> None:
        """End the workers."""
        for estimator in self._estimators.values():
            estimator.close()
        self._estimators.clear()
        for cache in self._caches:
            cache.close()

    def _order_for(self, gpu: str | None, cards: int) -> Order:
        order = self._order()
        gpu = gpu or order.gpu
        choice = self._choice.for_card(find_gpu(gpu))
        if choice.name != STAND_IN:
            return replace(order, device=VIRTUAL)
        return replace(order, device=ON_STAND_IN, libraries=choice.libraries, gpu=gpu, cards=cards)
