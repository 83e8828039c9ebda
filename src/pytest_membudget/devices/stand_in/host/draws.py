"""Random numbers that a test draws on the host: seeded, the same in every session; whether it drew any."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


class HostDraws:
    """The generators that code uses without naming one: of ``random``, NumPy and torch.

    And what others are seeded with that are made without a seed, as by ``numpy.random.default_rng()``.
    """

    def __init__(self) -> None:
        self._before: dict[str, object] = {}
        self._has_seeded = False

    def begin(self, seed: int) -> None:
        """A test begins: give all of them ``seed``."""
        self._seed_others(seed)
        random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
        self._before = _states()

    def drawn(self) -> list[str]:
        """The modules whose generators have been used, seeded, or imported, since."""
        now = {**_states(), **({"generators without a seed": True} if self._has_seeded else {})}
        return [name for name, state in now.items() if state != self._before.get(name)]

    def _seed_others(self, seed: int) -> None:
        """``secrets``, which NumPy asks, has its bytes from here (``random.SystemRandom``, Python 3.14)."""
        own = random.Random(seed)

        def urandom(size: int) -> bytes:
            self._has_seeded = True
            return own.randbytes(size)

        module: Any = random
        module._urandom = urandom


def _states() -> dict[str, object]:
    numpy: Any = sys.modules.get("numpy")
    states: dict[str, object] = {"random": random.getstate()}
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        states["numpy"] = (name, keys.tobytes(), *rest)
    with torch._C._DisableTorchDispatch():
        states["torch"] = bytes(torch.default_generator.get_state().numpy())
    return states
