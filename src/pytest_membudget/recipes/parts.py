"""Decoder: a model as the steps of recipes see it, whichever library made it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Decoder:
    """A causal language model, and the parts of it that a layout treats one by one."""

    model: nn.Module
    layers: nn.ModuleList
    hidden: Callable[[Tensor], Tensor]
    """The states that the head is given, of tokens."""
    logits: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor], Tensor]
    """The loss of tokens, as the library computes it."""
    head: nn.Linear
    recompute_layers: Callable[[], None]
    """Makes backward compute each layer again, by the library's own switch."""
    tensor_plan: Callable[[bool], dict[str, Any]]
    """torch's parallel styles by module; the argument: sequence parallel too."""


#: Makes a decoder whose parameters are of a type, where ``torch.device`` says.
Build = Callable[[], Decoder]
