"""Random numbers that a test draws on the host: seeded, the same in every session; whether it drew any.

``os.urandom`` and what it seeds (``uuid.uuid4``, ``random.Random()``) stay as they are: names of files are
made of them, which must differ from session to session and from rank to rank. That a test asks is noted.
"""

from __future__ import annotations

import os
import random
import sys
from types import FrameType
from typing import Any

import torch

from ....tracking.running_code.source import users_source


class HostDraws:
    """The generators that code uses without naming one: of ``random``, NumPy and torch.

    And what others are seeded with that are made without a seed, as by ``numpy.random.default_rng()``.
    """

    def __init__(self) -> None:
        self._before: dict[str, object] = {}
        self._has_seeded = False
        self._unseeded: dict[str, None] = {}
        self._source = users_source()
        self._urandom, self._seed = os.urandom, random.Random.seed

    def begin(self, seed: int) -> None:
        """A test begins: give all of them ``seed``."""
        self._seed_others(seed)
        self._note_unseeded()
        random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
        self._before = _states()

    def drawn(self) -> list[str]:
        """The modules whose generators have been used, seeded, or imported, since."""
        now = {**_states(), **({"generators without a seed": True} if self._has_seeded else {})}
        return [*(name for name, state in now.items() if state != self._before.get(name)), *self._unseeded]

    def _seed_others(self, seed: int) -> None:
        """``secrets``, which NumPy asks, has its bytes from here (``random.SystemRandom``, Python 3.14)."""
        own = random.Random(seed)

        def urandom(size: int) -> bytes:
            self._has_seeded = True
            return own.randbytes(size)

        module: Any = random
        module._urandom = urandom

    def _note_unseeded(self) -> None:
        own: Any = random.Random

        def urandom(size: int) -> bytes:
            self._note("os.urandom")
            return self._urandom(size)

        def seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
            if a is None:
                self._note("random.Random()")
            self._seed(generator, a, version)

        os.urandom, own.seed = urandom, seed

    def _note(self, what: str) -> None:
        """The test's own code, not a library for the name of a file, asks for ``what``."""
        code = _asking().f_code
        if self._source.is_users(code.co_filename):
            self._unseeded[what] = None


def _asking() -> FrameType:
    """The innermost frame that is neither of this file nor of the modules that pass the bytes on."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "random", "uuid"):
        frame = frame.f_back
    return frame


def _states() -> dict[str, object]:
    numpy: Any = sys.modules.get("numpy")
    states: dict[str, object] = {"random": random.getstate()}
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        states["numpy"] = (name, keys.tobytes(), *rest)
    with torch._C._DisableTorchDispatch():
        states["torch"] = bytes(torch.default_generator.get_state().numpy())
    return states
