"""Waits for autograd's threads, which let go of what a backward has kept after its caller goes on.

What they let go of may have Python objects, for which they wait for the interpreter's lock: on a card too it
is chance whether that memory is free when the next is requested. Here it always is, and figures are the same
in each run.
"""

import os
import time
from contextlib import suppress
from functools import cache
from typing import Final

#: What the engine calls its threads (torch/csrc/autograd/engine.cpp, 2.11 to 2.15).
_NAME: Final = "pt_autograd_"
_TASKS: Final = "/proc/self/task"
#: Seconds without the interpreter's lock; how often at the most, on a busy machine.
_PAUSE: Final = 1e-4
_MOST: Final = 100


def wait_for_engine() -> None:
    """Wait until none of the engine's threads runs, or is about to."""
    for _ in range(_MOST):
        time.sleep(_PAUSE)  # who waits for the lock has it then
        if not any(_is_running(thread) for thread in os.listdir(_TASKS) if _is_engines(thread)):
            return


@cache
def _is_engines(thread: str) -> bool:
    return _read(thread, "comm").startswith(_NAME)


def _is_running(thread: str) -> bool:
    return _read(thread, "stat").rpartition(") ")[2].startswith("R")


def _read(thread: str, name: str) -> str:
    with suppress(OSError), open(f"{_TASKS}/{thread}/{name}", encoding="utf-8") as file:
        return file.read()
    return ""
