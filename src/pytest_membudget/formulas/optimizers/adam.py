"""torch.optim's Adam and its kin: AdamW, NAdam, RAdam, Adamax, Adadelta.

Read in torch/optim/{adam,adamw,nadam,radam,adamax,adadelta}.py of torch 2.13.0; ``capturable`` and
``maximize`` off. ``_multi_tensor_*`` make lists of one tensor a parameter, ``_single_tensor_*`` one
parameter's tensors. Variables' names are those functions'.
"""

from __future__ import annotations

from typing import Final

from ..job import Optimizer
from ..local_tensors import LocalTensor
from .contract import Actions, Family, Free, Implementation, Make, State, as_large, counter, like_parameter


def l2_gradients(optimizer: Optimizer) -> Actions:
    """``grad = grad + weight_decay * param``; the variable is bound to the plain gradient before."""
    begin = Free("grads")
    return (begin, Make("grads", as_large)) if optimizer.has_l2 else (begin,)


def _two_moments(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer.amsgrad else [])]
    return counter(optimizer), *like_parameter(tensor, *names)


def _nadam_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    moments = like_parameter(tensor, "exp_avg", "exp_avg_sq")
    return counter(optimizer), counter(optimizer, "mu_product"), *moments


def _adamax_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    return counter(optimizer), *like_parameter(tensor, "exp_avg", "exp_inf")


def _adadelta_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    return counter(optimizer), *like_parameter(tensor, "square_avg", "acc_delta")


def _adam(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    if how == "foreach":
        return *l2_gradients(optimizer), Free("grads"), Make("exp_avg_sq_sqrt", as_large)
    root = Make("sqrt", as_large), Make("denom", as_large), Free("sqrt")
    return *l2_gradients(optimizer), *root


def _adamw(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """Its weight decay multiplies the parameters in place."""
    plain = Optimizer(amsgrad=optimizer.amsgrad)
    return _adam(tensor, plain, how)


def _nadam(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    if how == "foreach":
        return *l2_gradients(optimizer), Make("exp_avg_sq_sqrt", as_large)
    return *l2_gradients(optimizer), Make("quotient", as_large), Make("denom", as_large), Free("quotient")


def _radam(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """From the sixth step on, when the rectification has begun."""
    if how == "foreach":
        return *l2_gradients(optimizer), Free("grads"), Make("buffer", as_large)
    rectified = ("scaled", "exp_avg_sq_sqrt", "reciprocal", "adaptive_lr")
    after = (Free("exp_avg_sq_sqrt"), Free("reciprocal"), Make("product", as_large), Free("scaled"))
    return (
        *l2_gradients(optimizer),
        Make("bias_corrected_exp_avg", as_large),
        *(Make(name, as_large) for name in rectified),
        *after,
        Free("adaptive_lr"),
        Make("update", as_large),
        Free("product"),
        Free("update"),
    )


def _adamax(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """The list of absolute gradients is made in the decayed one where there is one."""
    if how == "foreach":
        return Free("grads"), Make("grads", as_large)
    return *l2_gradients(optimizer), Make("abs", as_large), Free("abs")


def _adadelta(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    return *l2_gradients(optimizer), Make("std", as_large), Make("delta", as_large)


def _source(file: str) -> str:
    return f"torch/optim/{file}.py, torch 2.13.0"


_ALL: Final[tuple[Implementation, ...]] = ("foreach", "fused", "loop")
FAMILIES: Final = {
    "adam": Family(_source("adam"), _two_moments, _adam, implementations=_ALL),
    "adamw": Family(_source("adam"), _two_moments, _adamw, implementations=_ALL),
    "nadam": Family(_source("nadam"), _nadam_states, _nadam),
    "radam": Family(_source("radam"), _two_moments, _radam),
    "adamax": Family(_source("adamax"), _adamax_states, _adamax),
    "adadelta": Family(_source("adadelta"), _adadelta_states, _adadelta),
}
