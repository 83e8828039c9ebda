"""The Python stack of another process, which writes it at a signal, however deep in C it is."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

#: Asks a process for its stack. By a signal: pytest's own use of faulthandler's timer undoes any other.
_WHERE = signal.SIGUSR2
#: Seconds that it gets to write it, on a busy machine too, and between two looks at what it has written.
_DUMP_TIMEOUT = 5.0
_INTERVAL = 0.05
#: Whose frames say nothing to the user of a test.
_HIDDEN = re.compile(r'File "(?:<|.*/(?:_pytest|pluggy|pytest_membudget)/)')
_COLLECTIVE = re.compile(r'File ".*/torch/distributed/')
#: Frames that are reported, the innermost.
_FRAMES = 12


def dump_stack_on_signal(path: Path) -> None:
    """Let this process write its stack into ``path`` whenever ``stacks_of`` asks for it."""
    file = path.open("wb")
    faulthandler.register(_WHERE, file=file, all_threads=False)


def stacks_of(processes: Sequence[tuple[int, Path]]) -> list[str]:
    """The frames, the innermost first, of each process and its ``dump_stack_on_signal`` file."""
    for pid, _ in processes:
        try:
            os.kill(pid, _WHERE)
        except ProcessLookupError:
            continue
    texts, previous = [""] * len(processes), [""]
    deadline = time.monotonic() + _DUMP_TIMEOUT
    while time.monotonic() < deadline and (not all(texts) or texts != previous):
        time.sleep(_INTERVAL)
        previous, texts = texts, [path.read_text(errors="replace") for _, path in processes]
    return ["\n".join(line for line in text.splitlines() if "File " in line) for text in texts]


def user_frames(place: str) -> str:
    """Of the frames ``place`` those that say something to the user of a test."""
    return "\n".join([line for line in place.splitlines() if not is_internal(line)][:_FRAMES])


def is_internal(line: str) -> bool:
    """Whether ``line`` of a crash's report says nothing to the user of a test."""
    return bool(_HIDDEN.search(line)) or line.startswith("Extension modules:")


def is_in_collective(place: str) -> bool:
    """Whether the innermost frame of ``place`` is of a collective or a rendezvous."""
    return bool(_COLLECTIVE.search(place.partition("\n")[0]))
