"""torch.optim's optimizers with one running average or none: SGD, Adagrad, RMSprop, ASGD, Rprop.

Read in torch/optim/{sgd,adagrad,rmsprop,asgd,rprop}.py of torch 2.13.0; ``capturable`` and ``maximize`` off.
"""

from __future__ import annotations

from typing import Final

from ..job import Optimizer
from ..local_tensors import LocalTensor
from ..number_types import bytes_for
from .adam import l2_gradients
from .contract import (
    ALL,
    Actions,
    Family,
    Free,
    Implementation,
    Make,
    Rename,
    State,
    as_large,
    counter,
    keeps,
    like_parameter,
    torch_source,
)


def _sgd_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    return like_parameter(tensor, "momentum_buffer") if optimizer.momentum else ()


def _rmsprop_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    names = ["square_avg"]
    names += ["momentum_buffer"] if optimizer.momentum else []
    names += ["grad_avg"] if optimizer.centered else []
    return counter(optimizer), *like_parameter(tensor, *names)


def _asgd_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    """Its scalars lie with the parameters."""
    scalars = tuple(State(name, 4, "fp32") for name in ("step", "eta", "mu"))
    return *scalars, *like_parameter(tensor, "ax")


def _sgd(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """The update is the decayed gradient, then the momentum, or with Nesterov a sum of both.

    Over lists that sum is made in the gradients, or in the decayed ones.
    """
    begin = l2_gradients(optimizer)
    if not optimizer.momentum:
        return begin
    if not optimizer.nesterov:
        return *begin, Free("grads")
    return begin if how == "foreach" else (*begin, Make("grads", as_large))


def _adagrad(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    if how == "loop":
        return *l2_gradients(optimizer), Make("std", as_large)
    if optimizer.has_l2:
        return Make("grads", as_large), Make("std", as_large), Rename("grads", "numerator")
    return Make("std", as_large), Make("numerator", as_large)


def _rmsprop(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    return *l2_gradients(optimizer), Make("avg", as_large)


def _fp32_scalar(tensor: LocalTensor) -> int:
    return 4


def _asgd(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """Before averaging begins (``t0``, a million steps)."""
    if how == "loop":
        return l2_gradients(optimizer)
    intermediate = Make("intermediate", as_large), Free("intermediate")
    return *intermediate, Make("new_etas", _fp32_scalar), Make("new_mus", _fp32_scalar)


def _mask(tensor: LocalTensor) -> int:
    return tensor.elements


def _scalar(tensor: LocalTensor) -> int:
    return bytes_for(1, tensor.number_type)


def _rprop(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    if how == "foreach":
        return (
            Make("signs", as_large),
            Make("mask", _mask, one_at_a_time=True),
            Make("where", as_large, one_at_a_time=True),
            Make("zero", _scalar, one_at_a_time=True),
            Free("mask"),
            Free("where"),
            Free("zero"),
            Free("signs"),
            Make("grad_signs", as_large),
        )
    return (
        Free("grad"),
        Make("product", as_large),
        Make("sign", as_large),
        Free("product"),
        Make("grad", as_large),
        Make("mask", _mask),
        Free("mask"),
        Make("grad_sign", as_large),
        Free("grad_sign"),
    )


_ADAGRAD: Final = keeps("sum", counters=("step",))
FAMILIES: Final = {
    "sgd": Family(torch_source("sgd"), _sgd_states, _sgd, implementations=ALL),
    "adagrad": Family(torch_source("adagrad"), _ADAGRAD, _adagrad, implementations=ALL),
    "rmsprop": Family(torch_source("rmsprop"), _rmsprop_states, _rmsprop),
    "asgd": Family(torch_source("asgd"), _asgd_states, _asgd),
    "rprop": Family(torch_source("rprop"), keeps("prev", "step_size", counters=("step",)), _rprop),
}
