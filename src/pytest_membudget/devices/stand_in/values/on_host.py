"""Operators computed on the host, on what is known of their arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ....tracking.roles.tensor_parts import tensors_in
from .known_values import KnownValues


class NotKnown(Exception):  # noqa: N818 - says what is, not what went wrong
    """A value that an operator needs is not known, or the operator does not run on the host."""


class OnHost:
    """Runs operators on host tensors that hold what is known of the arguments.

    ``targets`` are the arguments that are written to: known values change with them. With ``uniform`` each
    tensor is one element that represents all.
    """

    def __init__(
        self, known: KnownValues, targets: Sequence[torch.Tensor] = (), *, uniform: bool = False
    ) -> None:
        #: whether the last run stood on values that are plausible only
        self.assumed = False
        self._known = known
        self._targets = {id(target) for target in targets}
        self._uniform = uniform

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What ``func`` gives; ``NotKnown`` if an input is not, or if it raises."""
        tensors = tensors_in((*args, *kwargs.values()))
        self.assumed = any(self._known.is_assumed(tensor) for tensor in tensors)
        host_args = [self._on_host(value) for value in args]
        host_kwargs = {name: self._on_host(value) for name, value in kwargs.items()}
        try:
            return func(*host_args, **host_kwargs)
        except Exception as error:
            raise NotKnown from error

    def _on_host(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return [self._on_host(one) for one in value]
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor | None = None
        if id(tensor) in self._targets:
            found = self._known.writable(tensor, assumed=self.assumed)
        elif self._uniform:
            value = self._known.uniform(tensor)
            if value is not None:
                found = torch.full((1,) * tensor.dim(), value, dtype=tensor.dtype)
        elif tensor.numel() <= self._known.most_input_elements:
            found = self._known.of(tensor)
        if found is None:
            raise NotKnown
        return found
