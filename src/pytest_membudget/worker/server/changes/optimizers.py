"""Changes of optimizers: Adam's states in 8 bits, other options of torch.optim's, the step in backward."""

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ....steps import optimizer_in_backward
from . import Note

_LIBRARIES = ("bitsandbytes", "torchao")
_KINDS = ("Adam", "AdamW")
#: The options that both libraries have (bitsandbytes 0.50, torchao 0.18).
_OPTIONS = ("lr", "betas", "eps", "weight_decay", "amsgrad")


def use_eight_bits(item: pytest.Item, note: Note) -> None:
    """Replace ``AdamW`` and ``Adam`` of torch.optim."""
    installed = [name for name in _LIBRARIES if importlib.util.find_spec(name) is not None]
    if installed:
        library = importlib.import_module(f"{installed[0]}.optim")
        for name in _KINDS:
            _replace(getattr(torch.optim, name), getattr(library, f"{name}8bit"), note)


def _replace(kind: Any, with_eight_bits: Any, note: Note) -> None:
    """Make instances of ``kind``, not of its subclasses, instances of the other class."""

    def make(cls: Any, params: Any = (), *args: Any, **kwargs: Any) -> Any:
        if cls is not kind:
            return object.__new__(cls)
        note(f"{with_eight_bits.__module__.partition('.')[0]}.optim.{with_eight_bits.__name__}")
        options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
        return with_eight_bits(params, *args, **options)

    kind.__new__ = make


def use_fused(item: pytest.Item, note: Note) -> None:
    """Pass ``fused=True`` to every optimizer that has it."""
    _change_options(note, {"fused": True, "foreach": None})


def use_single_tensor(item: pytest.Item, note: Note) -> None:
    """Pass ``foreach=False`` to optimizers that are not fused."""
    _change_options(note, {"foreach": False})


def _change_options(note: Note, options: dict[str, bool | None]) -> None:
    for kind in vars(torch.optim).values():
        is_own = isinstance(kind, type) and issubclass(kind, Optimizer) and "__init__" in vars(kind)
        if is_own and options.keys() <= inspect.signature(kind.__init__).parameters.keys():
            kind.__init__ = _with_options(kind.__init__, note, options)


def _with_options(
    make: Callable[..., None], note: Note, options: dict[str, bool | None]
) -> Callable[..., None]:
    @functools.wraps(make)
    def make_changed(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("fused"):  # set by the body, or AdamW's call of Adam.__init__
            make(self, *args, **kwargs)
            return
        make(self, *args, **{**kwargs, **options})
        note(type(self).__name__)

    return make_changed


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
