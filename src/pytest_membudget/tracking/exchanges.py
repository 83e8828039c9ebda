"""``torch.utils.swap_tensors`` beside our weak references: torch refuses to exchange tensors that have any.

torchtune's and torchao's quantised weights take a parameter's place so, and ``nn.Module.to`` under
``torch.__future__.set_swap_module_params_on_conversion``.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import torch


class Referring(Protocol):
    """Refers to parameters weakly."""

    def let_go(self, parameter: torch.Tensor) -> bool:
        """Have no reference to ``parameter`` any more; whether there was one."""

    def see_parameter(self, parameter: torch.Tensor) -> None:
        """``parameter`` is one, with the memory that it has now."""


#: Who is to let go: several follow one process, and torch's function is replaced once for all of them.
_REFERRING: list[Referring] = []
_REPLACED: list[tuple[Any, Any]] = []


class ExchangeHandle:
    """Has ``referring`` let go of what is exchanged, and see it again afterwards, until it is removed."""

    def __init__(self, referring: Referring) -> None:
        self._referring = referring
        if not _REFERRING:
            original = torch.utils.swap_tensors
            torch.utils.swap_tensors = own = _letting_go(original)
            _REPLACED.append((original, own))
        _REFERRING.append(referring)

    def remove(self) -> None:
        """Put torch's own back after the last, unless somebody has replaced it again."""
        if self._referring not in _REFERRING:
            return
        _REFERRING.remove(self._referring)
        if not _REFERRING:
            original, own = _REPLACED.pop()
            if torch.utils.swap_tensors is own:
                torch.utils.swap_tensors = original


def _letting_go(exchange: Any) -> Any:
    @functools.wraps(exchange)
    def swap_tensors(first: torch.Tensor, second: torch.Tensor) -> None:
        both = (first, second)
        known = [(one, tensor) for one in _REFERRING for tensor in both if one.let_go(tensor)]
        try:
            exchange(first, second)
        finally:
            for one, tensor in known:
                one.see_parameter(tensor)

    return swap_tensors
