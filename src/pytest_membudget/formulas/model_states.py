"""Parameters, gradients and optimizer states of a rank, by number type, optimizer and sharing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..errors import UsageMistake
from ..scenarios.job import Adapter, Optimizer
from .decoder import Tensor
from .ranks import Rank, parts_of

#: Bytes of a number.
TYPE_BYTES: Final = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
#: Moments of the optimizers of torch.optim (2.13) and others with as many; SGD's is its momentum.
_MOMENTS: Final = {
    "adamw": 2, "adam": 2, "nadam": 2, "radam": 2, "adamax": 2, "adadelta": 2, "rprop": 2, "adagrad": 1,
    "rmsprop": 1, "asgd": 1, "lion": 1, "muon": 1, "adafactor": 0, "sgd": 0,
}  # fmt: skip
#: Numbers that share a scale in fp32: bitsandbytes' and torchao's 8-bit states (0.50, 0.15); 4 bits:
#: torchao's.
_STATE_BLOCKS: Final = {8: 256, 4: 128}
#: bitsandbytes keeps states of tensors with fewer numbers in 32 bits (``min_8bit_size``).
_LEAST_NUMBERS: Final = 4096
#: NF4 (arXiv:2305.14314, section 3): 64 weights share an fp32 scale; doubly quantised the scale has 8 bits,
#: and 256 of them share one in fp32.
_NF4_BYTES: Final = {"nf4": 0.5 + 4 / 64, "nf4-double": 0.5 + 1 / 64 + 4 / (64 * 256)}
#: Kinds of data parallelism that share parameters, gradients and states, by what each shares.
_SHARES_PARAMETERS: Final = ("fsdp2", "zero3")
_SHARES_GRADIENTS: Final = (*_SHARES_PARAMETERS, "zero2")
_SHARES_STATES: Final = (*_SHARES_GRADIENTS, "zero1")


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one rank, wherever they lie."""

    parameters: float
    frozen: float
    gradients: float
    optimizer: float
    largest_gradient: float
    """Of one tensor."""
    step_temporaries: float
    """Of the optimizer's step: a list of square roots with ``foreach``, one tensor's with a loop."""
    trained: float
    """How many numbers are trained, those of this rank's shard."""


def states_of(rank: Rank) -> States:
    """The states of ``rank``."""
    adapter = rank.job.adapter
    trained = list(_adapters(rank, adapter) if adapter is not None else parts_of(rank))
    frozen = sum(_frozen_bytes(part, rank) for part in parts_of(rank)) if adapter is not None else 0
    size = gradient_type(rank)
    gradients = [size * part.elements / _shards(part, rank, _SHARES_GRADIENTS) for part in trained]
    # each of a layer's gradients is whole until it is reduced: the largest single tensor's
    largest = max((size * part.elements / part.count for part in trained), default=0)
    shards = [part.elements / _shards(part, rank, _SHARES_STATES) for part in trained]
    return States(
        sum(trained_type(rank) * part.elements / _shards(part, rank, _SHARES_PARAMETERS) for part in trained),
        frozen,
        sum(gradients),
        sum(_optimizer_bytes(part, rank) for part in trained),
        largest,
        _temporaries(trained, shards, rank),
        sum(shards),
    )


def weight_type(rank: Rank) -> int:
    """Bytes of a parameter of the model itself."""
    return 2 if rank.is_megatron else TYPE_BYTES[rank.job.precision.parameters]


def trained_type(rank: Rank) -> int:
    """Bytes of a trained parameter: adapters are fp32 on a 16-bit or quantised base (peft's cast)."""
    return 4 if rank.job.adapter is not None else weight_type(rank)


def frozen_type(part: Tensor, rank: Rank) -> float:
    """Bytes of a frozen parameter."""
    adapter = rank.job.adapter
    if adapter is not None and adapter.base is not None and part.is_linear and part.part != "head":
        return _NF4_BYTES[adapter.base]
    return 4 if adapter is not None and adapter.casts_rest else weight_type(rank)


def _frozen_bytes(part: Tensor, rank: Rank) -> float:
    return frozen_type(part, rank) * part.elements / _shards(part, rank, _SHARES_PARAMETERS)


def gradient_type(rank: Rank) -> int:
    """Bytes of a gradient."""
    return 4 if rank.is_megatron else trained_type(rank)


def _shards(part: Tensor, rank: Rank, kinds: tuple[str, ...]) -> int:
    if rank.is_megatron:  # its distributed optimizer shares the states alone
        is_shared = kinds is _SHARES_STATES and bool(rank.job.model.values.get("use-distributed-optimizer"))
    else:
        is_shared = rank.job.data_parallel.kind in kinds
    return part.sharing if is_shared else 1


def _adapters(rank: Rank, adapter: Adapter) -> Iterator[Tensor]:
    """A's and B's of each adapted linear (arXiv:2106.09685), and DoRA's magnitudes."""
    for part in parts_of(rank):
        if not is_adapted(part.name, adapter) or not part.is_linear or part.part == "head":
            continue
        yield replace(part, rows=adapter.rank)
        yield replace(part, columns=adapter.rank)
        if adapter.kind == "dora":
            yield replace(part, rows=1, columns=part.rows)


def is_adapted(name: str, adapter: Adapter) -> bool:
    """Whether the linear ``name`` of a layer has an adapter."""
    return name != "router" and ("all-linear" in adapter.targets or name in adapter.targets)


def _optimizer_bytes(part: Tensor, rank: Rank) -> float:
    optimizer = rank.job.optimizer
    elements = part.elements / _shards(part, rank, _SHARES_STATES)
    if rank.is_megatron:  # fp32 master, exp_avg, exp_avg_sq
        return 12 * elements
    master = 4 * elements if optimizer.keeps_master else 0
    if optimizer.name == "adafactor":
        return master + _factored_bytes(part, rank)
    return master + elements * _moments(optimizer, part) * _state_type(optimizer, part, rank)


def _factored_bytes(part: Tensor, rank: Rank) -> float:
    """A row's and a column's means of squares in fp32 (Adafactor, arXiv:1804.04235); of vectors each
    number's.
    """
    numbers = part.rows + part.columns if part.rows > 1 else part.columns
    return 4 * part.count * numbers / _shards(part, rank, _SHARES_STATES)


def _moments(optimizer: Optimizer, part: Tensor) -> int:
    if optimizer.name not in _MOMENTS:
        raise UsageMistake(
            f"optimizer: formulas do not know {optimizer.name}; write one of {', '.join(_MOMENTS)}"
        )
    if optimizer.name == "muon" and (part.rows == 1 or part.part in ("embedding", "head")):
        return 2  # AdamW's: Muon is for the matrices of hidden layers
    return _MOMENTS[optimizer.name] + (optimizer.momentum and optimizer.name in ("sgd", "rmsprop"))


def _state_type(optimizer: Optimizer, part: Tensor, rank: Rank) -> float:
    wide = 4 if optimizer.keeps_master or optimizer.library == "bitsandbytes" else trained_type(rank)
    bits = optimizer.bits or (32 if wide == 4 else 16)
    if bits >= 16:
        return 4 if optimizer.bits == 32 else wide
    if part.rows * part.columns < _LEAST_NUMBERS:
        return 4
    return bits / 8 + 4 / _STATE_BLOCKS[bits]


def _temporaries(trained: list[Tensor], shards: list[float], rank: Rank) -> float:
    """AdamW's list of square roots with foreach, torch.optim's default on CUDA; fused kernels have none.

    A loop has the largest parameter's and their quotient; a step in backward the list of one parameter.
    """
    optimizer = rank.job.optimizer
    is_small = optimizer.implementation == "fused" or optimizer.bits in (4, 8)
    has_roots = _MOMENTS.get(optimizer.name) and optimizer.name not in ("lion", "muon")
    if rank.is_megatron or is_small or not has_roots:
        return 0
    size = 4 if optimizer.keeps_master else trained_type(rank)
    one = max((shard / part.count for part, shard in zip(trained, shards, strict=True)), default=0)
    if optimizer.implementation == "loop" or optimizer.library != "torch":
        return 2 * one * size
    return size * (one if optimizer.in_backward else sum(shards))
