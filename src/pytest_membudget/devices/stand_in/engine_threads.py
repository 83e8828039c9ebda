"""Waits for autograd's threads, which let go of what a backward has kept after its caller goes on.

What they let go of may have Python objects, for which they wait for the interpreter's lock: on a card too it
is chance whether that memory is free when the next is requested. Here it always is, and figures are the same
in each run.
"""

import os
import time
from contextlib import suppress
from typing import Final

#: What the engine calls its threads (torch/csrc/autograd/engine.cpp, 2.11 to 2.15).
_NAME: Final = "pt_autograd_"
_TASKS: Final = "/proc/self/task"
#: Seconds without the interpreter's lock; how often at the most, on a busy machine.
_PAUSE: Final = 1e-4
_MOST: Final = 100


class EngineThreads:
    """The engine's threads of this process."""

    def __init__(self) -> None:
        #: by the kernel's number of each thread, whether it is one
        self._known: dict[str, bool] = {}

    def wait(self) -> None:
        """Wait until none of them runs, or is about to."""
        for _ in range(_MOST):
            time.sleep(_PAUSE)  # who waits for the lock has it then
            if not any(self._is_running(thread) for thread in os.listdir(_TASKS) if self._is_one(thread)):
                return

    def _is_one(self, thread: str) -> bool:
        if thread not in self._known:
            self._known[thread] = _read(thread, "comm").startswith(_NAME)
        return self._known[thread]

    def _is_running(self, thread: str) -> bool:
        return _read(thread, "stat").rpartition(") ")[2].startswith("R")


def _read(thread: str, name: str) -> str:
    with suppress(OSError), open(f"{_TASKS}/{thread}/{name}", encoding="utf-8") as file:
        return file.read()
    return ""
