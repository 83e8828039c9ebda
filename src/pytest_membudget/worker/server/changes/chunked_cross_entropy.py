"""The cross entropy of a language model's head by chunks of tokens, from outside of the model."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ....steps import linear_cross_entropy
from . import Note

#: A linear layer with this many outputs, and this ratio of outputs to inputs, is taken for a language model's
#: head. Feed-forward layers have a ratio of about 4.
_LEAST_VOCABULARY = 8192
_LEAST_RATIO = 5
#: Methods that do not change the loss, and methods that only change the shape.
_SAME = ("float", "to", "contiguous", "clone", "type")
_SHAPES = ("view", "reshape", "flatten")
#: What the logits have as their hidden states have it.
_OF_HIDDEN = ("device", "dtype", "dim")
_OPERATORS = ("add", "sub", "mul", "truediv", "radd", "rmul", "neg", "matmul", "eq")


def chunk_cross_entropy(item: pytest.Item, note: Note) -> None:
    """Let heads return logits that are computed only if something other than a cross entropy uses them."""
    forward = nn.Linear.forward

    @functools.wraps(forward)
    def forward_later(self: nn.Linear, input: Tensor) -> Any:
        vocabulary = self.out_features
        is_head = vocabulary >= max(_LEAST_VOCABULARY, _LEAST_RATIO * self.in_features)
        if not is_head or not torch.is_grad_enabled() or input.dim() < 2:
            return forward(self, input)
        return _Logits(input, self.weight, self.bias, note)

    nn.Linear.forward = forward_later  # type: ignore[method-assign]


class _Logits:
    """Logits that are not computed yet, with the methods that models and losses call on them."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, note: Note) -> None:
        self._hidden, self._weight, self._bias, self._note = hidden, weight, bias, note
        self._computed: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape of the logits: that of the hidden states, with the vocabulary as the last dimension."""
        return torch.Size([*self._hidden.shape[:-1], self._weight.shape[0]])

    def size(self, dim: int | None = None) -> Any:
        """As a tensor's."""
        return self.shape if dim is None else self.shape[dim]

    def compute(self) -> Tensor:
        """The logits as a tensor."""
        if self._computed is None:
            self._computed = F.linear(self._hidden, self._weight, self._bias)
        return self._computed

    def __getattr__(self, name: str) -> Any:
        if name in _OF_HIDDEN:
            return getattr(self._hidden, name)
        if name in _SAME:
            return lambda *args, **kwargs: self
        if name in _SHAPES:
            return functools.partial(self._reshaped, name)
        return getattr(self.compute(), name)

    def __getitem__(self, index: Any) -> Any:
        steps = index if isinstance(index, tuple) else (index,)
        plain = all(isinstance(step, (int, slice)) or step is ... for step in steps)
        reaches_vocabulary = ... in steps or len(steps) == self._hidden.dim()
        if not plain or (reaches_vocabulary and steps[-1] not in (..., slice(None))):
            return self.compute()[index]
        return _Logits(self._hidden[index], self._weight, self._bias, self._note)

    def _reshaped(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The result of a shape method; deferred too if the vocabulary stays the last dimension."""
        shape = torch.empty(self.shape, device="meta")
        shape = getattr(shape, name)(*args, **kwargs)
        if shape.shape[-1] != self._weight.shape[0]:
            return getattr(self.compute(), name)(*args, **kwargs)
        hidden = self._hidden.reshape(*shape.shape[:-1], self._hidden.shape[-1])
        return _Logits(hidden, self._weight, self._bias, self._note)

    def _loss(
        self, target: Tensor, ignore_index: int = -100, reduction: str = "mean", **others: Any
    ) -> Tensor | None:
        """The cross entropy by chunks; None if the arguments are not those of plain class indices."""
        is_plain = not any(others.values()) and reduction in ("mean", "sum")
        if not is_plain or self._hidden.dim() != 2 or target.dim() != 1 or target.is_floating_point():
            return None
        self._note("F.cross_entropy")
        return linear_cross_entropy(
            self._hidden,
            self._weight,
            target,
            linear_bias=self._bias,
            ignore_index=ignore_index,
            reduction=reduction,
        )

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Called for torch functions that get logits."""
        kwargs = kwargs or {}
        if function is F.cross_entropy and isinstance(args[0], cls) and len(args) == 2:
            loss = args[0]._loss(args[1], **kwargs)
            if loss is not None:
                return loss
        computed = tree_map(lambda part: part.compute() if isinstance(part, cls) else part, (args, kwargs))
        return function(*computed[0], **computed[1])


def _computing(name: str) -> Callable[..., Any]:
    def operate(self: _Logits, *args: Any) -> Any:
        return getattr(self.compute(), name)(*args)

    return operate


for _operator in _OPERATORS:
    setattr(_Logits, f"__{_operator}__", _computing(f"__{_operator}__"))
