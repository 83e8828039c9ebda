"""A model's parameter tensors: what sharding, optimizers and rounding work on, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

#: What a tensor belongs to: it decides the pipeline stage, the split and the optimizer's exceptions.
Place = Literal[
    "embedding", "position", "attention", "feed_forward", "expert", "router", "norm", "head", "other"
]

#: bitsandbytes' storage of a frozen weight: 4 bits (double: with quantised scales), or 8 with a scale a row.
Quantised = Literal["nf4", "nf4-double", "int8", "fp4"]


@dataclass(frozen=True, slots=True)
class ParameterTensor:
    """One kind of parameter tensor, whole: before anything is split over GPUs."""

    name: str
    """Below its layer, as the implementation names it: ``self_attn.q_proj.weight``."""
    shape: tuple[int, ...]
    place: Place
    count: int = 1
    """How many such tensors one layer (or the model, outside layers) has: the experts."""
    split_dim: int | None = None
    """The dimension that tensor parallelism splits; None: every rank has all of it."""
    is_trained: bool = True
    """False for corrections and tables that get no gradient."""
    number_type: str | None = None
    """Where it differs from the model's (a router kept in fp32)."""
    quantised: Quantised | None = None
    """How it is stored where it is a frozen base's, whatever ``number_type`` says."""

    @property
    def elements(self) -> int:
        """Of one such tensor."""
        return prod(self.shape)

    @property
    def total_elements(self) -> int:
        """Of all ``count``."""
        return self.elements * self.count


@dataclass(frozen=True, slots=True)
class LayerTensors:
    """The tensors of one layer, and how many layers are like it."""

    tensors: tuple[ParameterTensor, ...]
    count: int
    stack: Literal["decoder", "encoder"] = "decoder"
    path: str = ""
    """The path of the stack's layers, as ``model.layers``: ``path.NUMBER.name`` is a tensor's name."""

    @property
    def elements(self) -> int:
        """Of one such layer."""
        return sum(tensor.total_elements for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All parameter tensors of a model, by position in it.

    ``before`` are on the first pipeline stage (embeddings), ``after`` on the last (final norm, head). A
    tied head is not in ``after``: the embedding's weight is used again.
    """

    before: tuple[ParameterTensor, ...]
    layers: tuple[LayerTensors, ...]
    after: tuple[ParameterTensor, ...]

    @property
    def elements(self) -> int:
        """Parameters of the model, those that are not trained included."""
        outside = sum(tensor.total_elements for tensor in (*self.before, *self.after))
        return outside + sum(layer.elements * layer.count for layer in self.layers)
