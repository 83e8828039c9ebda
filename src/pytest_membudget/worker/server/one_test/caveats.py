"""Records what a test did that makes its figure incomplete or dependent on assumptions."""

import ctypes.util
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from ....cache.audit import LOOK, OF_MACHINE, START, raise_more_events, words_of
from ....caveats import CARD_SOUGHT, OUT_OF_MEMORY, PROCESS, THREAD, TOOL, Caveat
from ....devices.stand_in.nvidia_smi import FOLDER, NAME, is_answered
from ....tracking.running_code.source import shown_path, users_source
from ....units import times_text

#: Audit events of starting a process (subprocess, os and pty, Python 3.14).
_STARTS: Final = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system")
#: Of reading a file, or a folder, or files by a pattern, which is their first argument.
_READS: Final = ("open", "os.listdir", "os.scandir", "glob.glob")
#: What comes with a card's driver, as ``ctypes.util.find_library`` is asked for it.
_OF_DRIVER: Final = ("cuda", "nvidia-ml")
#: Modules that start processes without GPU memory: compilers, workers of data loaders, py-cpuinfo.
_HARMLESS: Final = (
    "torch._inductor", "torch._dynamo", "torch.utils.data", "torch.utils.cpp_extension", "triton",
    "multiprocessing.resource_tracker", "platform", "ctypes.util", "cpuinfo",
)  # fmt: skip
#: Programs without GPU memory: they describe a machine or a checkout, or compile.
_TOOLS: Final = frozenset({
    *OF_MACHINE, "git", "which",
    "cc", "gcc", "g++", "c++", "clang", "clang++", "ld", "nvcc", "ptxas", "ninja",
})  # fmt: skip


class Caveats:
    """Installed once in a worker, before the user's code is imported; ``begin`` is called for each test."""

    def __init__(self) -> None:
        self._source = users_source()
        self._root = ""
        #: the pid of the process that runs the test
        self._pid = 0
        self._threads: set[threading.Thread] = set()
        #: in order of occurrence
        self._found: dict[Caveat, None] = {}

    def install(self) -> None:
        """Start watching starts of processes, and looks for a card."""
        raise_more_events()
        sys.addaudithook(self._see)
        find: Any = ctypes.util.find_library

        def find_library(name: str) -> str | None:
            found: str | None = find(name)
            if found is None and name in _OF_DRIVER:
                self._note_sought(f"lib{name}")
            return found

        ctypes.util.find_library = find_library

    def begin(self, root: str) -> None:
        """Begin a test. ``root``: paths are shown relative to it."""
        self._root, self._pid = root, os.getpid()
        self._threads = {*threading.enumerate()}

    def body_ended(self) -> None:
        """The test's body has ended: note the threads that it leaves at work."""
        for thread in threading.enumerate():
            if thread not in self._threads and not thread.daemon and not _is_idle(thread):
                name = f"{type(thread).__name__} {thread.name}"
                text = f"{name} is at work when the test's body ends: what it allocates then is not counted"
                self._found[Caveat(THREAD, text)] = None

    def found(self, ended_by_oom: bool = False) -> list[Caveat]:
        """The caveats of the test: assumptions, and memory that is missing in its figure.

        ``ended_by_oom``: the last out of memory ended the test.
        """
        ooms = 0
        if torch.cuda.is_initialized():  # by number: the test may have patched torch.cuda.current_device
            ooms = torch.cuda.memory_stats(torch.cuda.current_device()).get("num_ooms", 0)
        ooms -= ended_by_oom
        text = f"out of memory ({times_text(ooms)}), after which the test went on"
        caught = Caveat(OUT_OF_MEMORY, f"{text}: its figure is that of this run")
        return [*self._found, *([caught] if ooms > 0 else [])]

    def _see_path(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A file is looked for: a card's device, or its tool, is not there, as there is none."""
        path = args[0] if args else kwargs.get("path")
        if isinstance(path, str) and "nvidia" in path and _is_of_a_card(path):
            self._note_sought(path)

    def _note_sought(self, what: str) -> None:
        file, line = self._source.find(2)
        if os.getpid() == self._pid and file is not None and self._source.is_users(file):
            place = f"{shown_path(file, self._root)}:{line}"
            text = f"{place}: looks for {os.path.basename(what)}, which a machine with a card has"
            self._found[Caveat(CARD_SOUGHT, text)] = None

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if event == LOOK:
            self._see_path(*args)
        elif event in _READS:
            self._see_path(event, args, {})
        elif event == START:
            self._see_start(args[1][0])
        elif event in _STARTS:
            self._see_start(args[1] if len(args) > 1 else ["/bin/sh", "-c", *args] if args else [])

    def _see_start(self, given: Sequence[Any]) -> None:
        """A process is started with the words ``given``; a fork has none."""
        if os.getpid() != self._pid or self._is_harmless():
            return
        words = words_of(given)
        command = os.path.basename(words[0]) if words else "sh" if given else ""
        if command == NAME:  # it allocates nothing
            if not is_answered(words[1:]):
                self._note_sought(command)
            return
        shown = f" ({command})" if command else ""
        text = f"{self._place()}: a process is started{shown}: what it allocates is not counted"
        self._found[Caveat(TOOL if command in _TOOLS else PROCESS, text)] = None

    def _is_harmless(self) -> bool:
        """Whether one of the modules above starts it, with nothing but torch and Python in between."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if any(name == module or name.startswith(f"{module}.") for module in _HARMLESS):
                return True
            frame = None if self._source.shows(frame.f_code.co_filename) else frame.f_back
        return False

    def _place(self) -> str:
        file, line = self._source.find(2)
        return "torch" if file is None else f"{shown_path(file, self._root)}:{line}"


def _is_of_a_card(path: str) -> bool:
    """Whether ``path`` is a card's or its driver's, or NVIDIA's tool elsewhere than the stand-in has it."""
    is_tool = os.path.basename(path) == NAME and os.path.dirname(path) != str(FOLDER)
    return is_tool or path.startswith(("/dev/nvidia", "/proc/driver/nvidia"))


def _is_idle(thread: threading.Thread) -> bool:
    """Whether ``thread`` is a pool's, which waits for work."""
    frame: Any = sys._current_frames().get(thread.ident or 0)
    return frame is None or frame.f_code.co_filename.endswith("/concurrent/futures/thread.py")
