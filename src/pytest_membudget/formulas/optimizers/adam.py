"""torch.optim's Adam and its kin: AdamW, NAdam, RAdam, Adamax, Adadelta.

Read in torch/optim/{adam,adamw,nadam,radam,adamax,adadelta}.py of torch 2.13.0; ``capturable`` and
``maximize`` off. ``_multi_tensor_*`` make lists of one tensor a parameter, ``_single_tensor_*`` one
parameter's tensors. Variables' names are those functions'.
"""

from __future__ import annotations

from typing import Final

from ..job import Optimizer
from ..local_tensors import LocalTensor
from .contract import (
    ALL,
    Actions,
    Family,
    Free,
    Implementation,
    Make,
    State,
    as_large,
    counter,
    keeps,
    like_parameter,
    torch_source,
)


def l2_gradients(optimizer: Optimizer) -> Actions:
    """``grad = grad + weight_decay * param``; the variable is bound to the plain gradient before."""
    begin = Free("grads")
    return (begin, Make("grads", as_large)) if optimizer.has_l2 else (begin,)


def _two_moments(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer.amsgrad else [])]
    return counter(optimizer), *like_parameter(tensor, *names)


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


_NADAM: Final = keeps("exp_avg", "exp_avg_sq", counters=("step", "mu_product"))
_ADAMAX: Final = keeps("exp_avg", "exp_inf", counters=("step",))
_ADADELTA: Final = keeps("square_avg", "acc_delta", counters=("step",))
FAMILIES: Final = {
    "adam": Family(torch_source("adam"), _two_moments, _adam, implementations=ALL),
    "adamw": Family(torch_source("adam"), _two_moments, _adamw, implementations=ALL),
    "nadam": Family(torch_source("nadam"), _NADAM, _nadam),
    "radam": Family(torch_source("radam"), _two_moments, _radam),
    "adamax": Family(torch_source("adamax"), _ADAMAX, _adamax),
    "adadelta": Family(torch_source("adadelta"), _ADADELTA, _adadelta),
}
