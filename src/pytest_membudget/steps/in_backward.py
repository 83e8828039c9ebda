"""Optimizers that step inside the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerInBackward:
    """Optimizers that step while backward runs, until :meth:`remove`."""

    optimizers: Mapping[Tensor, Optimizer]
    """One a parameter; a schedule of the learning rate sets it in each."""
    handles: tuple[RemovableHandle, ...]
    """The hooks, in the parameters' order."""

    def remove(self) -> None:
        """Take the hooks off: from here on gradients stay, as in ordinary training."""
        for handle in self.handles:
            handle.remove()


def optimizer_in_backward(
    parameters: nn.Module | Iterable[Tensor], optimizer_class: Callable[..., Optimizer], **kwargs: object
) -> OptimizerInBackward:
    """Step each parameter as soon as its gradient is there, and free the gradient.

    Equivalent to::

        optimizers = {p: optimizer_class([p], **kwargs) for p in model.parameters() if p.requires_grad}

        def step_and_free(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in optimizers:
            parameter.register_post_accumulate_grad_hook(step_and_free)

    so that only a few gradients are alive at once. ``loss.backward()`` is then the whole update. Frozen
    parameters are skipped. What needs all gradients at once is
    lost: accumulation, clipping by the total norm, a gradient scaler. After PyTorch's tutorial "How to save
    memory by fusing the optimizer step into the backward pass".

    Raises ``ValueError`` when no parameter requires a gradient.
    """
    given = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
    optimizers = {p: optimizer_class([p], **kwargs) for p in given if p.requires_grad}
    if not optimizers:
        raise ValueError("no parameter requires a gradient: unfreeze some before optimizer_in_backward")

    def step_and_free(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad(set_to_none=True)

    handles = [parameter.register_post_accumulate_grad_hook(step_and_free) for parameter in optimizers]
    return OptimizerInBackward(optimizers, tuple(handles))
