"""The estimator that measures tests on a CUDA device, in the same worker as estimates."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...budgets.budget import Budget
from ...budgets.marked_test import MarkedTest
from ...devices.cuda_devices import lock_gpus, visible_names, why_no_cuda
from ...errors import WorkerFailure
from ...hardware.gpus import find_gpu
from ...results.answer import TRACED, Answer, Request, read_answer
from ...results.estimator import Estimator, NotEstimated, without_figure
from ...results.test_result import TestResult
from ..protocol import CUDA
from ..ranks.launch_ranks import measure_ranks
from .order import Order, for_program
from .worker import Worker
from .workers import Workers

#: Drivers reserve different amounts of the same card for themselves (see gpus.yaml).
_SAME_CARD = 0.97


class MeasuringEstimator(Estimator):
    """Measures tests in workers with CUDA. Raises ``NotEstimated`` if no card fits the test."""

    def __init__(
        self,
        order: Order,
        environment: Mapping[str, str],
        device: str = CUDA,
        start: Callable[[Order], Worker] = Worker,
    ) -> None:
        """``device``: what makes the workers' device. ``start``: starts a worker."""
        self._environment = environment
        self._order = replace(order, device=device, template="", processes=1)
        self._why_not = why_no_cuda(environment) if device == CUDA else None
        self._start = start
        self._workers = Workers(self._order, start=start)
        self._card: Answer | None = None

    def estimate(self, test: MarkedTest) -> TestResult:
        """The measurement of ``test`` on a card; host memory is not measured."""
        assert test.budget is not None
        if self._why_not is not None:
            raise NotEstimated(self._why_not)
        if not test.budget.is_of_card:
            raise NotEstimated("its budget is of host memory alone")
        budget = replace(test.budget, host_gib=None)
        test = replace(test, budget=budget)
        try:
            result = read_answer(test, self._answer(test, budget))
        except WorkerFailure as error:
            result = without_figure(test, str(error))
        name = dict(self._card.properties).get("name") if self._card is not None else None
        named = (replace(one, device=name or one.device) for one in result.estimates)
        return replace(result, estimates=tuple(named))

    def close(self) -> None:
        """End the worker."""
        self._workers.close()

    def _check_card(self, file: str, budget: Budget) -> None:
        """Raise ``NotEstimated`` if ``budget`` cannot be measured here; not if no worker starts."""
        card = self._card or self._workers.card_for(file)
        reason = _unfit(card, budget) if card is not None else None
        # imports may have allocated on the device, on which other processes measure next
        if self._card is None and (reason is not None or budget.gpus > 1):
            self._workers.close()
        if card is not None and card.outcome == TRACED:
            self._card = card
        if reason is not None:
            raise NotEstimated(reason)

    def _answer(self, test: MarkedTest, budget: Budget) -> Answer:
        request = Request.of(test, budget, self._order.gpu)
        with lock_gpus(visible_names(self._environment, 1)):
            self._check_card(test.path, budget)
            if budget.gpus == 1:
                return self._workers_for(test).ask(request)
        with lock_gpus(visible_names(self._environment, budget.gpus)):
            return measure_ranks(for_program(self._order, test.program), budget.gpus, request)

    def _workers_for(self, test: MarkedTest) -> Workers:
        """Those with the variables of ``test``; no other process is on the card meanwhile."""
        order = for_program(self._order, test.program)
        if order != self._order:
            self._workers.close()
            self._order, self._workers = order, Workers(order, start=self._start)
        return self._workers


def _unfit(answer: Answer, budget: Budget) -> str | None:
    """Why a budget cannot be measured on the card that ``answer`` describes."""
    if answer.outcome != TRACED:  # the process that queried the driver failed
        return f"no CUDA: the driver could not be asked: {answer.reason.splitlines()[0]}"
    card = dict(answer.properties)
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
