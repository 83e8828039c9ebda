"""Zeroth-order training in a federation, one client's side: gradients from two losses, never a backward.

Re-created from ZidongLiu/DeComFL at edd30e0: ``ResetClient`` of cezo_fl/client.py and the parameter-wise
estimator of cezo_fl/gradient_estimators/adam_forward.py, one perturbation a step.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import nn

Loss = Callable[[], torch.Tensor]


class ForwardEstimator:
    """Draws perturbations parameter by parameter, scaled by a second moment that it keeps on the device."""

    step = 1e-3
    smoothing = 0.95

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        self.moments = [torch.ones(p.shape, device="cuda") for p in self.parameters]

    def _perturbation(self, index: int, generator: torch.Generator) -> torch.Tensor:
        shape, moment = self.parameters[index].shape, self.moments[index]
        return torch.randn(*shape, device="cuda", generator=generator).div_(torch.sqrt(moment))

    def _perturb(self, seed: int, alpha: float) -> None:
        generator = _generator(seed)
        for index, parameter in enumerate(self.parameters):
            perturbation = self._perturbation(index, generator)
            parameter.add_(perturbation, alpha=alpha)
            del perturbation

    def directional_gradient(self, loss: Loss, seed: int) -> torch.Tensor:
        """One number: how the loss grows along the perturbation of ``seed``."""
        before = loss()
        self._perturb(seed, self.step)
        after = loss()
        self._perturb(seed, -self.step)
        return torch.tensor([((after - before) / self.step).item()], device="cuda")

    def update_model(self, gradient: torch.Tensor, seed: int) -> None:
        """Go down along the perturbation of ``seed``."""
        generator = _generator(seed)
        for index, parameter in enumerate(self.parameters):
            perturbation = self._perturbation(index, generator)
            parameter.data.add_(perturbation, alpha=-1e-4 * float(gradient[0]))
            del perturbation

    def update_moments(self, gradient: torch.Tensor, seed: int) -> None:
        """Five tensors of a parameter's size beside it: where the recorded run peaks."""
        generator = _generator(seed)
        for index in range(len(self.parameters)):
            perturbation = self._perturbation(index, generator)
            squared = perturbation.square_() * gradient[0] ** 2
            self.moments[index] = self.smoothing * self.moments[index] + (1 - self.smoothing) * squared
            del perturbation


def _generator(seed: int) -> torch.Generator:
    return torch.Generator(device="cuda").manual_seed(seed * 17)


class Client:
    """A model that goes back to its last known state, kept on the host, before each round."""

    def __init__(self, model: nn.Module, estimator: ForwardEstimator) -> None:
        self.model = model
        self.estimator = estimator
        self.pulled = self._on_host()
        self.batch: tuple[torch.Tensor, ...] = ()

    def _on_host(self) -> dict[str, torch.Tensor]:
        return {name: deepcopy(value).cpu() for name, value in self.model.state_dict().items()}

    def pull(self, seeds: list[int], gradients: list[torch.Tensor]) -> None:
        """Take up what the other clients have found since."""
        self.model.cpu()
        self.model.load_state_dict(self.pulled)
        self.model.to("cuda")
        for seed, gradient in zip(seeds, gradients, strict=True):
            self.estimator.update_model(gradient, seed)
            self.estimator.update_moments(gradient, seed)
        self.pulled = {}
        self.pulled = self._on_host()

    def local_update(self, tokens: torch.Tensor, seed: int) -> torch.Tensor:
        """One step on ``[batch, length]`` tokens of the host; gives its directional gradient."""
        tokens, mask = tokens.to("cuda"), torch.ones_like(tokens).to("cuda")
        self.batch = tokens, mask  # the original's loader names it until the next one
        labels = tokens[:, -1].clone()

        def loss() -> torch.Tensor:
            return _last_token_loss(self.model(input_ids=tokens, attention_mask=mask).logits, labels)

        gradient = self.estimator.directional_gradient(loss, seed)
        self.estimator.update_model(gradient, seed)
        loss()
        return gradient


def _last_token_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    candidates = logits[:, -1, [1099, 205]].view(-1, 2)
    return nn.functional.cross_entropy(candidates, (labels == 205).to(torch.long))
