"""Parameters that ``copy.deepcopy`` makes: no module registers them, so no hook tells of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class CopiedParameters:
    """Tells of each copy of a parameter while it is installed."""

    def __init__(self, on_parameter: Callable[[torch.Tensor], None]) -> None:
        self._on_parameter = on_parameter
        self._copy: Any = None

    def install(self) -> None:
        """Start."""
        kind: Any = torch.nn.Parameter
        self._copy = kind.__deepcopy__
        kind.__deepcopy__ = self._deepcopy_of(self._copy)

    def remove(self) -> None:
        """Stop."""
        kind: Any = torch.nn.Parameter
        kind.__deepcopy__ = self._copy

    def _deepcopy_of(self, copy: Callable[..., Any]) -> Callable[..., Any]:
        def deepcopy(parameter: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
            copied: torch.Tensor = copy(parameter, memo)
            self._on_parameter(copied)
            return copied

        return deepcopy
