"""Where a process is: it writes its Python stack at a signal, however deep in C it is."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

#: Asks a process where it is. By a signal: pytest's own use of faulthandler's timer undoes any other.
_WHERE = signal.SIGUSR2
#: Seconds that it gets to write it, and between two looks at what it has written.
_PATIENCE = 1.0
_INTERVAL = 0.05
#: Whose frames say nothing to the user of a test.
_HIDDEN = re.compile(r'File "(?:<|.*/(?:_pytest|pluggy|pytest_membudget)/)')
_COLLECTIVE = re.compile(r'File ".*/torch/distributed/')
#: ``linux/prctl.h``
_PR_SET_PDEATHSIG = 1
#: Frames that are reported, the innermost.
_FRAMES = 12


def tell_when_asked(path: Path) -> None:
    """Let this process write into ``path`` where it is, whenever ``places_of`` asks."""
    file = path.open("wb")
    faulthandler.register(_WHERE, file=file, all_threads=False)


def end_with_parent() -> None:
    """Let the kernel end this process when its parent is gone, which could not end it any more: on Linux."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (AttributeError, OSError):
        return


def places_of(processes: Sequence[tuple[int, Path]]) -> list[str]:
    """The frames, the innermost first, of each process and its ``tell_when_asked`` file."""
    for pid, _ in processes:
        try:
            os.kill(pid, _WHERE)
        except ProcessLookupError:
            continue
    texts, previous = [""] * len(processes), [""]
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and (not all(texts) or texts != previous):
        time.sleep(_INTERVAL)
        previous, texts = texts, [path.read_text(errors="replace") for _, path in processes]
    return ["\n".join(line for line in text.splitlines() if "File " in line) for text in texts]


def users_lines(place: str) -> str:
    """Of the frames ``place`` those that say something to the user of a test."""
    return "\n".join([line for line in place.splitlines() if not is_noise(line)][:_FRAMES])


def is_noise(line: str) -> bool:
    """Whether ``line`` of a crash's report says nothing to the user of a test."""
    return bool(_HIDDEN.search(line)) or line.startswith("Extension modules:")


def waits_for_others(place: str) -> bool:
    """Whether the innermost frame of ``place`` is of a collective or a rendezvous."""
    return bool(_COLLECTIVE.search(place.partition("\n")[0]))
