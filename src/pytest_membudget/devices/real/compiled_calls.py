"""Keeps hooks on modules out of the code that ``torch.compile`` compiles.

Dynamo compiles global hooks with the code of the modules that they are called for, and breaks the graph in
them: a recorded test would then compile other code. So the hooks are removed while compiled code runs, and
the call is recorded as a whole.
"""

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import nn

from ...tracking.running_code.modules import module_of, optimizers_of
from ...tracking.running_code.replaced import Replacement
from ..after_import import after_import
from ..torch_parts import check_parts

#: (module, attribute path, what it is for): see ``devices/torch_parts.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._dynamo.eval_frame", "_maybe_set_eval_frame", "compiled calls: keeping hooks out of them"),
    ("torch._dynamo.eval_frame", "OptimizedModule.__call__", "compiled modules"),
    ("torch._dynamo.trace_rules", "add", "compiled calls: keeping this package's code out of them"),
)

#: The function of torch that every compiled function is called through; the code is its ``fn``.
_ENTRY = "compile_wrapper"


#: Makes a context without hooks, in which the module runs and the optimizers step, each as a whole.
Paused = Callable[[nn.Module | None, list[torch.optim.Optimizer]], contextlib.AbstractContextManager[None]]


class CompiledCalls:
    """Pauses hooks on modules during each outermost call of compiled code, from ``install`` to ``remove``."""

    def __init__(self, paused: Paused, see: Callable[[object], None]) -> None:
        """``see``: called with the arguments of compiled code before it runs, and with its result after."""
        self._paused = paused
        self._see = see
        #: while a call runs
        self._call: contextlib.AbstractContextManager[None] | None = None
        #: frame of torch's entry, where a function is called
        self._entry: FrameType | None = None
        self._is_installed = False
        self._replaced: list[Replacement] = []

    def install(self) -> None:
        """Pause them from here on. Until the compiler is imported nothing is replaced."""
        self._is_installed = True
        after_import("torch._dynamo", self._install_entries)

    def remove(self) -> None:
        """No longer pause them."""
        self._is_installed = False
        for replacement in self._replaced:
            replacement.remove()
        self._replaced = []

    def _install_entries(self, dynamo: Any) -> None:
        check_parts(PARTS)
        dynamo.trace_rules.add(__name__.partition(".")[0])
        if self._replaced or not self._is_installed:
            return
        entries = dynamo.eval_frame
        self._replaced = [
            Replacement(entries, "_maybe_set_eval_frame", self._switching),
            Replacement(entries.OptimizedModule, "__call__", self._module_call),
        ]

    def _switching(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``original`` switches compiled code on, and back to the state before."""

        def switch(callback: Any) -> Any:
            frame = sys._getframe(1)
            if frame is self._entry:
                before = original(callback)
                self._entry = None
                self._end(frame.f_locals.get("result"))
                return before
            # no callback: eager code, by ``torch.compiler.set_stance``
            if self._call is None and callback is not None and frame.f_code.co_name == _ENTRY:
                function = frame.f_locals["fn"]
                self._begin(module_of(function), optimizers_of(function), frame.f_locals["args"])
                self._entry = frame
            return original(callback)

        return switch

    def _module_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self._call is not None:
                return original(module, *args, **kwargs)
            self._begin(module._orig_mod, [], args)
            result = None
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._end(result)
            return result

        return call

    def _begin(self, module: nn.Module | None, optimizers: list[torch.optim.Optimizer], args: object) -> None:
        self._see(args)
        self._call = self._paused(module, optimizers)
        self._call.__enter__()

    def _end(self, result: object) -> None:
        call, self._call = self._call, None
        self._see(result)
        if call is not None:
            call.__exit__(None, None, None)
