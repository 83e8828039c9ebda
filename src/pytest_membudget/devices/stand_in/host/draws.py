"""Random numbers that a test draws on the host: seeded, the same in every session; whether it drew any.

``os.urandom`` and what it seeds (``uuid.uuid4``, ``random.Random()``) stay as they are: names of files are
made of them, which must differ from session to session and from rank to rank. That a test asks is noted, as
is that it reads what others send.
"""

import ctypes
import gc
import os
import random
import stat
import sys
import uuid
from collections.abc import Collection
from types import FrameType
from typing import Any, Final

import torch

from ....cache.audit import plain
from ....results.varied import DRAWS, HOST_ENDS
from ....tracking.running_code.source import users_source
from .draw_ends import DRAW_ENDS

_DEVICES: Final = ("/dev/random", "/dev/urandom")
#: Modules that pass the system's bytes on.
_PASSING: Final = (__name__, "random", "secrets", "uuid")
#: Added to torch's seed in further runs: it draws by the lower bits, and a test's own seed has not this one.
_MARK_OF_SEED: Final = 1 << 40
#: Connects to the processes that it has started.
_OF_PROCESSES: Final = "multiprocessing.connection"


class HostDraws:
    """The generators that code uses without naming one: of ``random``, NumPy and torch.

    And what others are seeded with that are made without a seed, as by ``numpy.random.default_rng()``.
    """

    def __init__(self) -> None:
        self._before: dict[str, object] = {}
        self._unseeded: dict[str, None] = {}
        self._outside: dict[str, None] = {}
        self._source = users_source()
        self._seed = random.Random.seed
        self._is_importing = False

    def install(self) -> None:
        """Note what draws from here on."""
        self._note_unseeded()
        sys.addaudithook(self._see)

    def begin(self, seed: int, end: int | None = None, *, is_importing: bool = False) -> None:
        """A test begins, or imports do: give all ``seed``, and single draws that ``end`` of their range.

        Of imports, libraries' own do not count: they make tokens and names of files.
        """
        self._is_importing = is_importing
        self._unseeded.clear()
        self._outside.clear()
        self._seed_others(seed)
        random.seed(seed)
        torch_seed = seed + (_MARK_OF_SEED if seed else 0)
        torch.default_generator.manual_seed(torch_seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
        DRAW_ENDS.begin(end, torch_seed, is_importing=is_importing)
        self._before = _states()

    def drawn(self, seeded: Collection[str] = ()) -> list[str]:
        """What may be another number in another session; of generators those used, seeded or imported.

        Those ``seeded`` are left out.
        """
        changed = [name for name, state in _states().items() if state != self._before.get(name)]
        names = ", ".join([*(name for name in changed if name not in seeded), *self._unseeded])
        ends = [HOST_ENDS] if DRAW_ENDS.drew else []
        return [*([f"{DRAWS} ({names})"] if names else []), *self._outside, *ends]

    def imported(self) -> list[str]:
        """The same of imports, which may have given generators seeds for the tests: they draw anew there."""
        drawn = self.drawn(DRAW_ENDS.seeded_names())
        return [what if what == HOST_ENDS else f"{what}, while files are imported" for what in drawn]

    def _seed_others(self, seed: int) -> None:
        """``secrets``, which NumPy asks, has its bytes from here (``random.SystemRandom``, Python 3.14)."""
        own = random.Random(seed)

        def urandom(size: int) -> bytes:
            if self._is_importing and not self._is_asked_by_user():
                return own.randbytes(size)
            self._unseeded["generators without a seed"] = None
            return DRAW_ENDS.of_bytes(own.randbytes(size))

        def seed_by_system(generator: torch.Generator) -> int:
            number = int.from_bytes(urandom(8)[:6], "little")  # six would be a draw
            generator.manual_seed(number)
            return number

        module: Any = random
        module._urandom = urandom
        _set_method(torch.Generator, "seed", seed_by_system)

    def _note_unseeded(self) -> None:
        own: Any = random.Random

        def seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
            DRAW_ENDS.leave_own(generator)
            if a is None and self._note("random.Random()"):
                DRAW_ENDS.follow_own(generator)
            self._seed(generator, a, version)

        own.seed = seed
        for module, name, shown in (
            (os, "urandom", "os.urandom"), (os, "getrandom", "os.getrandom"),
            (uuid, "_generate_time_safe", "uuid.uuid1"),
        ):  # fmt: skip
            if (ask := getattr(module, name, None)) is not None:
                setattr(module, name, self._noted(shown, ask))

    def _noted(self, name: str, ask: Any) -> Any:
        def of_system(*args: Any, **kwargs: Any) -> Any:
            is_users, drawn = self._note(name), ask(*args, **kwargs)
            return DRAW_ENDS.of_bytes(drawn) if is_users and isinstance(drawn, bytes) else drawn

        return of_system

    def _note(self, what: str) -> bool:
        """Whether the test's own code, not a library for the name of a file, asks for ``what``."""
        is_users = self._is_asked_by_user()
        if is_users:
            self._unseeded[what] = None
        return is_users

    def _is_asked_by_user(self) -> bool:
        return self._source.is_users(_asking().f_code.co_filename)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str):
            self._see_open(args[0])
        elif event == "socket.connect" and not _is_of_processes():
            self._outside["what comes from a socket"] = None

    def _see_open(self, path: str) -> None:
        if path in _DEVICES:
            self._unseeded[path] = None
            return
        try:
            is_fifo = stat.S_ISFIFO(plain(os.stat)(path).st_mode)
        except (OSError, ValueError):
            return
        if is_fifo:
            self._outside[f"what comes from the FIFO {os.path.basename(path)}"] = None


def _asking() -> FrameType:
    """The innermost frame that is neither of this file nor of the modules that pass the bytes on."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _PASSING:
        frame = frame.f_back
    return frame


def _is_of_processes() -> bool:
    return _asking().f_globals.get("__name__") == _OF_PROCESSES


def _set_method(kind: type, name: str, function: Any) -> None:
    """Set a method of a type that is written in C, which Python refuses."""
    (methods,) = gc.get_referents(kind.__dict__)
    methods[name] = function
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _states() -> dict[str, object]:
    numpy: Any = sys.modules.get("numpy")
    states: dict[str, object] = {"random": random.getstate()}
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        states["numpy"] = (name, keys.tobytes(), *rest)
    with torch._C._DisableTorchDispatch():
        states["torch"] = bytes(torch.default_generator.get_state().numpy())
    return states
