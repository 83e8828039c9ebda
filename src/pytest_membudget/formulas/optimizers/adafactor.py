"""Adafactor: second moments of matrices as a row and a column of them; torch's and transformers' differ.

Read in torch/optim/_adafactor.py of torch 2.13.0 and transformers/optimization.py of transformers 5.23.0.
Both factor over the last two dimensions. torch keeps states in the gradient's type and has no first moment;
transformers keeps them in fp32, makes 16-bit gradients and parameters fp32 one by one, and has a first moment
with ``beta1``. torch's default is the loop.
"""

from __future__ import annotations

from math import prod
from typing import Final

from ...errors import UsageMistake
from ..job import Optimizer
from ..local_tensors import LocalTensor
from ..number_types import bytes_for
from .contract import Actions, Family, Free, Implementation, Make, Rename, State, as_large, formula_of


def _is_matrix(tensor: LocalTensor) -> bool:
    return len(tensor.shape) > 1


def _rows(tensor: LocalTensor) -> tuple[int, ...]:
    return tensor.shape[:-1]


def _columns(tensor: LocalTensor) -> tuple[int, ...]:
    return (*tensor.shape[:-2], tensor.shape[-1])


def _state(name: str, shape: tuple[int, ...], number_type: str) -> State:
    return State(name, bytes_for(prod(shape), number_type), formula_of(shape, number_type))


def _torch_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    if optimizer.has_first_moment:
        raise UsageMistake(
            "torch's Adafactor has no first moment; drop has_first_moment, or write library 'transformers'"
        )
    step = State("step", 4, "fp32", on_host=True)
    kind = tensor.number_type
    if not _is_matrix(tensor):
        return step, _state("variance", tensor.shape, kind)
    return step, _state("row_var", _rows(tensor), kind), _state("col_var", _columns(tensor), kind)


def _row_bytes(tensor: LocalTensor) -> int:
    return bytes_for(prod(_rows(tensor)), tensor.number_type)


def _column_bytes(tensor: LocalTensor) -> int:
    return bytes_for(prod(_columns(tensor)), tensor.number_type)


def _mean_bytes(tensor: LocalTensor) -> int:
    return bytes_for(prod(tensor.shape[:-2]), tensor.number_type)


def _torch_step(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    """``update`` and ``var_estimate`` are one tensor, so that the last one goes when both are bound anew."""
    bind = Rename("var_estimate", "update")
    means = () if how == "loop" else (Free("row_mean"), Free("col_mean"), Free("grad_squared"))
    if not _is_matrix(tensor):
        return Make("grad_squared", as_large), *means, Make("var_estimate", as_large), bind
    rows, columns = Make("row_mean", _row_bytes), Make("col_mean", _column_bytes)
    mean = Make("row_var_mean", _mean_bytes), Free("row_var_mean")
    if how == "loop":
        return rows, columns, Make("var_estimate", as_large), *mean, bind
    factors = rows, Free("row_mean"), columns, Free("col_mean")
    return *factors, Make("var_estimate", as_large), *mean, bind


def _transformers_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    first = [_state("exp_avg", tensor.shape, "fp32")] if optimizer.has_first_moment else []
    second = [_state("exp_avg_sq", tensor.shape, "fp32")]
    if _is_matrix(tensor):
        second = [
            _state("exp_avg_sq_row", _rows(tensor), "fp32"),
            _state("exp_avg_sq_col", _columns(tensor), "fp32"),
        ]
    return *first, *second, State("RMS", 4, "fp32")


def _fp32(tensor: LocalTensor) -> int:
    return bytes_for(tensor.elements, "fp32")


def _fp32_copy(tensor: LocalTensor) -> int:
    """Of a 16-bit tensor; one in fp32 is taken as it is."""
    return 0 if tensor.number_type == "fp32" else _fp32(tensor)


def _transformers_step(tensor: LocalTensor, optimizer: Optimizer, how: Implementation) -> Actions:
    begin = (
        Free("grad"),
        Make("grad", _fp32_copy),
        Free("p_data_fp32"),
        Make("p_data_fp32", _fp32_copy),
        Make("square", _fp32),
        Make("update", _fp32),
        Free("square"),
    )
    factors = (
        Make("r_factor", lambda t: bytes_for(prod(_rows(t)), "fp32")),
        Make("c_factor", lambda t: bytes_for(prod(_columns(t)), "fp32")),
    )
    end = Make("update", _fp32), Free("r_factor"), Free("c_factor")
    bound = (Free("update"),) if optimizer.has_first_moment else ()
    negative = Make("negative", _fp32), Free("negative")
    return *begin, *(factors if _is_matrix(tensor) else ()), *end, *bound, *negative


TORCH: Final = Family(
    "torch/optim/_adafactor.py, torch 2.13.0",
    _torch_states,
    _torch_step,
    implementations=("loop", "foreach"),
    group=_is_matrix,
)
TRANSFORMERS: Final = Family(
    "transformers/optimization.py, transformers 5.23.0",
    _transformers_states,
    _transformers_step,
    implementations=("loop",),
)
