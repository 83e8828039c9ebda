"""RecordedRun: records the peaks and the history of PyTorch's allocator, on a real card or the stand-in."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ...allocator.history import DeviceHistory, Frames, history_in
from ...tracking.ledger import Ledger
from ...tracking.record import Line
from ...tracking.running_code.replaced import Hooks, Replacement
from ...tracking.running_code.source import SourceFinder, users_source
from ...tracking.timeline import Lives
from .bodys_history import BodysHistory, record_run
from .observer import RunObserver, allocated_bytes
from .origins import Origins
from .overlay import overlay
from .run_log import RunLog
from .shown_snapshot import Purposes, show_in


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    ledger: Ledger
    stats: Mapping[str, int]
    """``torch.cuda.memory_stats`` at its end, with the peaks of the whole run."""
    snapshot: dict[str, Any] | None
    """``torch.cuda.memory._snapshot`` at its end, as a report has it; None without allocations, or without
    ``records``."""
    seconds: float
    """How long it took, with the reading of its record."""
    lives: Lives | None
    """The lives of the ledger's storages; None without allocations, or without what they were for."""
    history: DeviceHistory
    """The allocator's."""


class RecordedRun:
    """Records the work of this process on its current device, from ``begin`` to ``end``."""

    def __init__(self) -> None:
        self.source: SourceFinder = users_source()
        self._peaks = KeptPeaks()
        self._is_observed = self._has_begun = False
        self._history = BodysHistory(self._begun_log)
        self._set_memory_metadata = torch.cuda.memory._set_memory_metadata  # PyTorch's, not the body's
        #: the observer of the run
        self.observer = RunObserver(self._set_metadata, self.source)
        self._began = 0.0
        #: what was held when the body had ended, where nothing is observed
        self._held_bytes: int | None = None

    def install(self) -> None:
        """Observe this process from here on; the run begins when CUDA is begun to be used."""
        self._observe()
        self._history.install()
        torch.cuda._lazy_call(self.begin)

    def _observe(self) -> None:
        if not self._is_observed:
            self._is_observed = True
            self.observer.install()

    def _set_metadata(self, text: str) -> None:
        if self._has_begun:  # the allocator's metadata can be set once CUDA is initialized
            self._set_memory_metadata(text)

    def _begun_log(self) -> RunLog:
        torch.cuda.init()
        self.begin()
        return self.observer.log

    def begin(self) -> None:
        """Start the allocator's history and reset its peaks, unless already done."""
        if self._has_begun:
            return
        torch.cuda.init()
        torch.cuda.reset_peak_memory_stats()
        self._history.remove()
        record_run(torch.cuda.memory._record_memory_history)
        self._history.install()
        self._has_begun = True
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)  # not in a torch without CUDA
        if attach is not None:
            attach(lambda *sizes: self.observer.roles.see_steps_end())
        self._observe()
        self.observer.log.renew()
        self._peaks.install()
        self._began = time.perf_counter()

    def test_begins(self) -> None:
        """Count the seconds from here on: the history may have begun in the process that this one copies."""
        self._began = time.perf_counter()

    def leave_out_purposes(self) -> None:
        """From here on record no stacks, and not what storages are for: their sizes and order alone."""
        self._is_observed = False
        self.observer.remove()
        self._history.remove()
        record_run(torch.cuda.memory._record_memory_history, None)
        self._history.install()

    def body_ended(self) -> None:
        """Record gradients and what is held at the end of the test's body."""
        if self._is_observed:
            self.observer.body_ended()
        else:
            self._held_bytes = allocated_bytes()

    def end(self, *, records: bool = False) -> RunResult:
        """End the run and return its result; ``records``: with its snapshot."""
        device = torch.cuda.current_device()  # by number: a test may have patched torch.cuda.current_device
        torch.cuda.synchronize(device)
        if self._is_observed:
            self.observer.remove()
        self._peaks.remove()
        self._history.remove()
        stats = self._peaks.over(torch.cuda.memory_stats(device))
        content = _history()
        torch.cuda.memory._record_memory_history(None)
        history = history_in(content, device)
        ledger, lives, shown = Ledger(), None, None
        if history.events and self._is_observed:
            lives, shown = self._played(history, ledger, content if records else None)
        elif history.events and self._held_bytes is not None:
            ledger.end_body(self._held_bytes)
        return RunResult(ledger, stats, shown, time.perf_counter() - self._began, lives, history)

    def _played(
        self, history: DeviceHistory, ledger: Ledger, content: Any
    ) -> tuple[Lives, dict[str, Any] | None]:
        """Play ``history`` into ``ledger``. ``content``: to make a snapshot of; None for none."""
        lives = Lives(ledger)
        purposes = Purposes(ledger) if content is not None else None
        seen = self.observer.log.seen()
        origins = Origins(self._line_in(self.source.shows), self._line_in(self.source.is_users))
        overlay(history, seen, origins, ledger)
        if purposes is None:
            return lives, None
        device = torch.cuda.current_device()
        return lives, show_in(content, device, purposes.so_far(), seen.states, self.source)

    def _line_in(self, has: Callable[[str], bool]) -> Callable[[Frames], Line | None]:
        def line(frames: Frames) -> Line | None:
            lines = ((str(frame["filename"]), int(frame["line"])) for frame in frames)
            return next((one for one in lines if one[0].endswith(".py") and has(one[0])), None)

        return line


class KeptPeaks(Hooks):
    """The allocator's peaks over a whole run, though the test resets them on the way.

    ``torch.cuda.reset_peak_memory_stats`` and its variants call the private
    ``torch._C._cuda_resetPeakMemoryStats``: tests/devices/real/test_kept_peaks.py.
    """

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def _hooked(self) -> list[Replacement]:
        name = "_cuda_resetPeakMemoryStats"  # not in a torch without CUDA
        return [Replacement(torch._C, name, self._keeping)] if hasattr(torch._C, name) else []

    def over(self, stats: Mapping[str, int]) -> dict[str, int]:
        """``stats`` of ``torch.cuda.memory_stats``, with the peaks of the whole run."""
        kept = self._highest
        return {name: max(value, kept[name]) if name in kept else value for name, value in stats.items()}

    def _keeping(self, reset: Callable[[int], None]) -> Callable[[int], None]:
        def keep_and_reset(device: int) -> None:
            if device == torch.cuda.current_device():
                now = self.over(torch.cuda.memory_stats())
                self._highest = {name: value for name, value in now.items() if name.endswith(".peak")}
            reset(device)

        return keep_and_reset


@contextlib.contextmanager
def _without_inductor() -> Iterator[None]:
    """A context in which torch does not import ``torch._inductor``, which takes two seconds.

    Where PyTorch reads the lines of a stack it asks for ``torch._inductor.codecache``, which knows those of
    compiled code (torch/csrc/profiler/python/combined_traceback.cpp, 2.13), and torch imports it then.
    """
    is_needed = "torch._inductor" in sys.modules
    if not is_needed:
        vars(torch)["_inductor"] = None
    try:
        yield
    finally:
        if not is_needed:
            vars(torch).pop("_inductor", None)


def _history() -> Any:
    """The allocator's history; ``RuntimeError`` for a source file whose name is not UTF-8.

    PyTorch casts the names to C++ strings (torch/csrc/profiler/python/combined_traceback.cpp, 2.15).
    """
    try:
        with _without_inductor():
            return torch.cuda.memory._snapshot()
    except RuntimeError as error:
        if "Unable to cast Python instance" not in str(error):
            raise
        raise RuntimeError(
            "PyTorch records places in files by names in UTF-8, and a file that ran has another: "
            "rename it or its folder, or set PYTHONUTF8=1"
        ) from error
