"""What a step reads in a model's output: its loss, its logits, any field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor

Loss: TypeAlias = Callable[[Any, Any], Tensor]
"""``loss(output, batch)``: one number, from what the model returned and the micro-batch it was given."""


def field(output: object, name: str) -> object:
    """``output.name`` or ``output[name]``, ``None`` where it has neither."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def loss_of(output: object, batch: object, loss: Loss | None) -> Tensor:
    """``loss(output, batch)``, or the model's own loss; ``TypeError`` where that is not one number."""
    if loss is not None:
        found: object = loss(output, batch)
    else:
        found = output if isinstance(output, Tensor) else field(output, "loss")
    if isinstance(found, Tensor) and found.dim() == 0:
        return found
    what = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else repr(found)
    raise TypeError(
        f"the loss of {type(output).__name__} is {what}, not a tensor of no dimension: let the model return "
        "one (Hugging Face's do when the batch has labels), or pass loss=, a function of (output, batch), as "
        "in loss=lambda output, batch: F.cross_entropy(output, labels)"
    )


def logits_of(output: object, whose: str) -> Tensor:
    """The output's logits; ``TypeError``, naming ``whose``, where it has none."""
    logits = output if isinstance(output, Tensor) else field(output, "logits")
    if isinstance(logits, Tensor):
        return logits
    raise TypeError(
        f"the {whose} returned {type(output).__name__} without logits: let it return a tensor, .logits or "
        '["logits"], of shape (batch, sequence, vocabulary)'
    )
