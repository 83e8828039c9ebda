"""Gets the Python stack of another process, which writes it when it gets a signal, even inside C code."""

import faulthandler
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...tracking.running_code.source import shown_path, users_source
from ..time_limit import Overrun

#: The signal that requests a stack; not faulthandler's timer, which pytest uses itself.
_WHERE = signal.SIGUSR2
#: Seconds that a process gets to write its stack, also on a busy machine, and between two checks of the file.
_DUMP_TIMEOUT = 5.0
_INTERVAL = 0.05
#: What a line begins with that a process has added to its stack.
_ADDED = "Added: "
#: Packages whose frames are not shown to users.
_HIDDEN = re.compile(r'File "(?:<|.*/(?:_pytest|pluggy|pytest_membudget)/)')
_COLLECTIVE = re.compile(r'File ".*/torch/distributed/')
#: A frame as faulthandler writes it (Python/traceback.c, 3.10 to 3.14).
_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')
#: Lines of frames that are reported, the innermost.
_FRAMES = 12


#: Makes the lines that this process adds to its stack, where it runs Python.
adding: list[Callable[[], Sequence[str]]] = []


def dump_stack_on_signal(path: Path) -> None:
    """Let this process write its stack into ``path`` whenever ``stacks_of`` asks for it, and what it adds."""
    file = path.open("wb", buffering=0)

    def add(*_: object) -> None:
        lines = [line for make in adding for line in make()]
        file.write("".join(f"{_ADDED}{line}\n" for line in lines).encode())

    signal.signal(_WHERE, add)
    faulthandler.register(_WHERE, file=file, all_threads=False, chain=True)


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
    return ["\n".join(line for line in text.splitlines() if _is_shown(line)) for text in texts]


def _is_shown(line: str) -> bool:
    return "File " in line or line.startswith(_ADDED)


def place_of(stack: str, root: str) -> tuple[str, str]:
    """The innermost line of the user's own code, relative to ``root``, with its function; and the calls.

    The calls are those of the user's code and libraries, the innermost first; others are counted in brackets.
    """
    source, line, shown, hidden = users_source(), "", [], 0
    for text in stack.splitlines():
        frame = _FRAME.search(text)
        if frame is None or is_internal(text):
            continue
        if not source.shows(frame["file"]):
            hidden += 1
            continue
        if hidden:
            shown.append(f"  ({hidden} calls in torch and Python's library)")
            hidden = 0
        shown.append(text)
        if not line and source.is_users(frame["file"]):
            line = f"{shown_path(frame['file'], root)}:{frame['line']} in {frame['function']}"
    return line, "\n".join(shown[:_FRAMES])


def hang_text(overrun: Overrun, stack: str, what: str = "finish") -> str:
    """The message that a process is over its time limit, and where it was."""
    line, calls = place_of(stack, os.getcwd())
    added = [f"  {text.removeprefix(_ADDED)}" for text in stack.splitlines() if text.startswith(_ADDED)]
    parts = [overrun.text(what, at=line)]
    parts += ["It was at:", calls] if calls else []
    return "\n".join([*parts, *(["It has read what nobody knows:", *added] if added else [])])


def is_internal(line: str) -> bool:
    """Whether ``line`` of a crash report means nothing to users."""
    return bool(_HIDDEN.search(line)) or line.startswith("Extension modules:")


def is_in_collective(place: str) -> bool:
    """Whether the innermost frame of ``place`` is of a collective or a rendezvous."""
    return bool(_COLLECTIVE.search(place.partition("\n")[0]))
