"""How a step calls a model, and what it reads in its output: the loss, the logits, any field."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn

Batch: TypeAlias = Tensor | Mapping[str, Any] | tuple[Any, ...] | list[Any]
"""What a model is called with: a tensor, keyword arguments (a mapping) or positional ones (a sequence)."""

Loss: TypeAlias = Callable[[Any, Any], Tensor]
"""``loss(output, batch)``: one number, from what the model returned and the micro-batch it was given."""


def call(model: nn.Module, batch: object) -> object:
    """What ``model`` returns for ``batch``; ``TypeError`` for a batch of another kind."""
    if isinstance(batch, Tensor):
        return model(batch)
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    raise TypeError(
        f"a batch of type {type(batch).__name__}: give a tensor, a mapping of keyword arguments, or a tuple "
        "or list of positional ones (of a data loader: iter(loader))"
    )


def refuse_training_mode(model: nn.Module, name: str) -> None:
    """``ValueError`` for a model in training mode, called ``name`` in its text."""
    if model.training:
        raise ValueError(
            f"the {name} is in training mode (dropout is on): call {name}.eval() before the step"
        )


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
