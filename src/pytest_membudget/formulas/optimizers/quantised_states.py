"""Optimizers with 8-bit and 4-bit states: bitsandbytes' and torchao's.

Read in bitsandbytes/optim/optimizer.py of bitsandbytes 0.50.2 and torchao/optim/{adam,subclass_8bit,
subclass_4bit,subclass_fp8}.py of torchao 0.18.0.

bitsandbytes: elements of a byte, an fp32 maximum a block of 256, tables of 256 fp32 numbers that all
parameters share; parameters below 4,096 elements, and named ones, have fp32 states. Its kernels work
in place. Paged, states of 100,000 elements and more are ``cudaMallocManaged`` memory: the CUDA driver moves
it, PyTorch's allocator never sees it, and here it counts as the host's.

torchao: quantised where a parameter has 4,096 elements or more and whole blocks (of 256, with 4 bits of 128),
else in the parameter's own type; a table a state (none with fp8). Its step is compiled.
"""

from __future__ import annotations

from typing import Final

from ...errors import UsageMistake
from ..job import Optimizer
from ..local_tensors import LocalTensor
from ..number_types import bytes_for
from .contract import Family, State, formula_of, like_parameter

_SMALLEST: Final = 4096
"""Elements from which on states are quantised, in both (``min_8bit_size``)."""
_BLOCK: Final = 256
_BLOCK_4_BIT: Final = 128
_TABLE_BYTES: Final = 256 * 4
_TABLE_4_BIT_BYTES: Final = 16 * 4
_SMALLEST_PAGED: Final = 100_000

#: bitsandbytes' states, by optimizer: whether each is signed, which decides its table.
_BITSANDBYTES: Final = {
    "adamw": (True, False),
    "adam": (True, False),
    "lion": (True,),
    "sgd": (True,),
    "adagrad": (True,),
    "rmsprop": (True,),
}


def _bits(tensor: LocalTensor, optimizer: Optimizer) -> int:
    bits = optimizer.bits or 32
    if bits not in (8, 32):
        raise UsageMistake(f"bitsandbytes' optimizers have states of 8 or 32 bits, not {bits}; write bits 8")
    stays = tensor.elements < _SMALLEST or any(_names(tensor, name) for name in optimizer.in_32_bits)
    return 32 if stays else bits


def _names(tensor: LocalTensor, written: str) -> bool:
    """A place, or the end of a name (of its module too)."""
    ends = (tensor.name, tensor.name.removesuffix(".weight"))
    return tensor.place == written or any(end == written or end.endswith(f".{written}") for end in ends)


def _bitsandbytes_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    if optimizer.name == "sgd" and not optimizer.momentum:
        raise UsageMistake("bitsandbytes' SGD needs a momentum; write momentum, or library 'torch'")
    if optimizer.amsgrad or optimizer.centered:
        raise UsageMistake("bitsandbytes' optimizers have neither amsgrad nor centered; drop it")
    paged = optimizer.is_paged and tensor.elements >= _SMALLEST_PAGED
    numbers = range(1, 1 + len(_BITSANDBYTES[optimizer.name]))
    if _bits(tensor, optimizer) == 32:
        formula = formula_of(tensor.shape, "fp32")
        size = bytes_for(tensor.elements, "fp32")
        return tuple(State(f"state{number}", size, formula, on_host=paged) for number in numbers)
    blocks = -(-tensor.elements // _BLOCK)
    formula = formula_of(tensor.shape, "int8")
    states = [State(f"state{number}", tensor.elements, formula, on_host=paged) for number in numbers]
    maxima = [State(f"absmax{number}", blocks * 4, f"ceil(elements/{_BLOCK})*fp32") for number in numbers]
    return *states, *maxima


def _bitsandbytes_tables(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    """Tables come to the card with the first parameter that needs them."""
    if _bits(tensor, optimizer) == 32:
        return ()
    signs = _BITSANDBYTES[optimizer.name]
    names = {True: "dynamic", False: "udynamic"}
    return tuple(State(f"table {names[sign]}", _TABLE_BYTES, "256*fp32") for sign in signs)


def _torchao_states(tensor: LocalTensor, optimizer: Optimizer) -> tuple[State, ...]:
    if optimizer.bits not in (4, 8):
        raise UsageMistake(
            f"torchao's optimizers have states of 8 or 4 bits, not {optimizer.bits}; write bits 8 or 4"
        )
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer.amsgrad else [])]
    step = State("step", 4, "fp32", on_host=True)
    block = _BLOCK if optimizer.bits == 8 else _BLOCK_4_BIT
    if tensor.elements < _SMALLEST or tensor.elements % block:
        return step, *like_parameter(tensor, *names)
    codes = tensor.elements * optimizer.bits // 8
    table = 0 if optimizer.is_fp8 else _TABLE_BYTES if optimizer.bits == 8 else _TABLE_4_BIT_BYTES
    states = [step]
    for name in names:
        states.append(State(f"{name}.codes", codes, formula_of(tensor.shape, f"{optimizer.bits} bits")))
        states.append(State(f"{name}.scale", tensor.elements // block * 4, f"elements/{block}*fp32"))
        states += [State(f"{name}.qmap", table, "table*fp32")] if table else []
    return tuple(states)


_BITSANDBYTES_FAMILY: Final = Family(
    "bitsandbytes/optim/optimizer.py, bitsandbytes 0.50.2",
    _bitsandbytes_states,
    shared=_bitsandbytes_tables,
    implementations=("fused",),
)
_TORCHAO_FAMILY: Final = Family(
    "torchao/optim/adam.py, torchao 0.18.0",
    _torchao_states,
    implementations=("fused",),
    not_modelled="torchao's optimizer step is compiled: what its kernels need besides states is not known",
)
BITSANDBYTES: Final = dict.fromkeys(_BITSANDBYTES, _BITSANDBYTES_FAMILY)
TORCHAO: Final = dict.fromkeys(("adamw", "adam"), _TORCHAO_FAMILY)
