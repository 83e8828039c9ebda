"""The virtual device in threads: what they allocate is fake and counted too.

A mode of torch's dispatcher is one thread's. Libraries load weights and move batches in pools of threads, so
each thread that is started enters the device's mode, and operators of several threads run one after another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .device_query import PRIM_DEVICE
from .mode import VirtualMode


class ThreadedMode(VirtualMode):
    """The device's mode once a thread was started: one operator at a time."""

    turn: threading.RLock
    kernel_thread: int | None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """As without threads, when it is this thread's turn."""
        if func is PRIM_DEVICE:
            return super().__torch_dispatch__(func, types, args, kwargs)
        with self.turn:
            return super().__torch_dispatch__(func, types, args, kwargs)

    @property
    def in_kernel_invocation(self) -> bool:
        """Whether this thread is inside a fake kernel: tensors say that they are on meta then."""
        return self.kernel_thread == threading.get_ident()

    @in_kernel_invocation.setter
    def in_kernel_invocation(self, value: bool) -> None:
        self.kernel_thread = threading.get_ident() if value else None


def install_threads(mode: VirtualMode) -> None:
    """Let threads that are started from here on run in ``mode``."""
    threads: Any = threading.Thread
    start = threads.start

    def start_in_mode(thread: threading.Thread) -> None:
        if thread.ident is None:  # else starting it raises
            _take_turns(mode)
            thread.run = _in_mode(thread.run, mode)  # type: ignore[method-assign]
        start(thread)

    threads.start = start_in_mode


def _take_turns(mode: VirtualMode) -> None:
    """From here on; not within an operator, for whoever starts a thread is user code."""
    if not isinstance(mode, ThreadedMode):
        threaded: Any = mode
        threaded.turn, threaded.kernel_thread = threading.RLock(), None
        threaded.__class__ = ThreadedMode


def _in_mode(run: Callable[[], None], mode: VirtualMode) -> Callable[[], None]:
    def run_in_mode() -> None:
        # what entering the mode does, and what the device's installation does, for each thread
        torch._C._set_dispatch_mode(mode)
        torch._C._set_only_lift_cpu_tensors(True)
        torch.autograd.set_multithreading_enabled(False)
        run()

    return run_in_mode
