"""How much memory a card has that no mark names: in further runs it is one with less, and one with more."""

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from ...caveats import FREE_MEMORY, Caveat
from ...hardware.gpus import Gpu
from ...results.varied import CARD_MEMORY
from ...tracking.running_code.source import Place, SourceFinder
from .values.variants import VARIANT

#: Functions that give free and total bytes; the first is what ``torch.cuda.mem_get_info`` asks.
_BY_FUNCTION: Final = ("cudaMemGetInfo", "get_memory_info")


class CardMemory:
    """Answers what a test asks of it, and where."""

    def __init__(self, source: SourceFinder) -> None:
        self._source = source
        self._card = ""
        self._is_named = False
        #: in order of occurrence
        self._asked: dict[Place, None] = {}

    def install(self) -> None:
        """Vary it from here on.

        ``torch.cuda._lazy_call`` is private: what varies it is made once CUDA is initialized.
        """
        torch.cuda._lazy_call(self._vary)

    def begin(self, gpu: Gpu, *, is_named: bool) -> None:
        """A test begins on ``gpu``, or imports do; ``is_named``: by its mark, and so nothing is varied."""
        self._card, self._is_named = gpu.name, is_named

    def _vary(self) -> None:
        for module in (torch.cuda.cudart(), torch.accelerator, torch.accelerator.memory):
            for name in _BY_FUNCTION:
                if hasattr(module, name):
                    setattr(module, name, self._varied(getattr(module, name)))
        own: Any = torch._C
        own._cuda_setMemoryFraction = self._limited(own._cuda_setMemoryFraction)
        properties: Any = type(torch.cuda.get_device_properties(0))
        total = properties.total_memory
        properties.total_memory = property(lambda card: self._other(total.__get__(card)))

    def unknown(self) -> list[str]:
        """Why other variants may give the test another figure."""
        return [CARD_MEMORY] if self._asked and not self._is_named else []

    def caveats(self, root: str) -> list[Caveat]:
        """Where it was asked; paths are relative to ``root``."""
        text = f"the memory of a card that its mark does not name: {self._card}'s"
        return [
            Caveat(FREE_MEMORY, f"{place.shown(root)}: {text}") for place in self._asked if self.unknown()
        ]

    def _varied(self, ask: Callable[..., tuple[int, int]]) -> Callable[..., tuple[int, int]]:
        @functools.wraps(ask)
        def memory(*args: Any, **kwargs: Any) -> tuple[int, int]:
            free_bytes, total_bytes = ask(*args, **kwargs)
            other_bytes = self._other(total_bytes)
            return max(free_bytes + other_bytes - total_bytes, 0), other_bytes

        return memory

    def _limited(self, limit: Callable[[float, int], None]) -> Callable[[float, int], None]:
        """Of a card with more the same share is more; of one with less a body may not have enough."""

        def set_fraction(fraction: float, device: int) -> None:
            self._asked[self._source.place(3)] = None
            share = 1 if self._is_named else max(VARIANT.memory_share, 1)
            limit(min(fraction * share, max(fraction, 1)), device)

        return set_fraction

    def _other(self, total_bytes: int) -> int:
        if self._is_named:
            return total_bytes
        self._asked[self._source.place(3)] = None
        return int(total_bytes * VARIANT.memory_share)
