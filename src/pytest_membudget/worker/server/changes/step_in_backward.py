"""The optimizer step in backward, with the body's own optimizer."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ....steps import optimizer_in_backward
from . import Note


def step_in_backward(item: pytest.Item, note: Note) -> None:
    """Apply ``optimizer_in_backward`` to every optimizer. The body's own ``step`` then finds no gradients."""
    steps = _Steps()
    register_optimizer_step_post_hook(steps.ended)
    add_group = Optimizer.add_param_group

    @functools.wraps(add_group)
    def add_group_and_hooks(self: Optimizer, param_group: dict[str, Any]) -> None:
        add_group(self, param_group)
        group = self.param_groups[-1]
        trained = [parameter for parameter in group["params"] if parameter.requires_grad]
        if trained:
            of_one: Any = functools.partial(_OneParameter, steps, self, group)
            optimizer_in_backward(trained, of_one)
            note(type(self).__name__)

    Optimizer.add_param_group = add_group_and_hooks  # type: ignore[method-assign]


class _Steps:
    """The parameters that were updated in backward since the body's last ``optimizer.step()``."""

    def __init__(self) -> None:
        self._stepped: set[int] = set()
        self._is_in_backward = False

    def ended(self, optimizer: Optimizer, *args: object) -> None:
        """Called after each optimizer step, in backward or not."""
        if not self._is_in_backward:
            self._stepped.clear()

    def step(self, one: Optimizer, parameter: Tensor) -> None:
        """Step ``parameter`` by ``one``. Raises ``RuntimeError`` where gradients are accumulated."""
        if id(parameter) in self._stepped:
            raise RuntimeError("gradients are accumulated: a step in backward would be another training")
        self._stepped.add(id(parameter))
        self._is_in_backward = True
        type(one).step(one)  # not the instance's: learning-rate schedulers replace that
        self._is_in_backward = False


class _OneParameter:
    """The optimizer of ``params``, one parameter of ``group``, with the state of ``optimizer``."""

    def __init__(
        self, steps: _Steps, optimizer: Optimizer, group: dict[str, Any], params: list[Tensor]
    ) -> None:
        self._steps, self._optimizer, self._group, self._params = steps, optimizer, group, params

    def step(self) -> None:
        one = object.__new__(type(self._optimizer))
        one.__dict__.update(self._optimizer.__dict__)
        one.param_groups = [{**self._group, "params": self._params}]
        self._steps.step(one, self._params[0])

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._params[0].grad = None
