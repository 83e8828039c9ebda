"""Keeps the hooks that follow modules out of what ``torch.compile`` compiles.

Dynamo compiles global hooks with the code of the modules that they are called by, and breaks off in them: a
test would compile other code because it is watched. So while compiled code is on, the hooks are away, and the
call as a whole is followed.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn

from ...tracking.compiled_owners import module_of, optimizers_of
from ...tracking.plain_environment import plain_environment
from ..fake.private import check_parts

#: (module, attribute path, what it is for): see ``virtual/private.py``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._dynamo.eval_frame", "_maybe_set_eval_frame", "compiled calls: keeping hooks out of them"),
    ("torch._dynamo.eval_frame", "OptimizedModule.__call__", "compiled modules"),
    ("torch._dynamo.trace_rules", "add", "compiled calls: keeping this package's code out of them"),
)

#: The function of torch that every compiled function is called through; the code is its ``fn``.
_ENTRY = "compile_wrapper"


@dataclass(frozen=True, eq=False, slots=True)
class Follower:
    """One that follows modules by hooks."""

    away: Callable[[nn.Module | None, list[torch.optim.Optimizer]], contextlib.AbstractContextManager[None]]
    """A context without its hooks, in which the module runs and the optimizers step, each as a whole."""
    tell: Callable[[object], None]
    """Given what goes into compiled code, before that runs, and what comes out, after it."""


class CompiledCalls:
    """Has the hooks of its followers away during each outermost call of compiled code."""

    def __init__(self) -> None:
        self._followers: list[Follower] = []
        #: while a call runs: what ends that the hooks are away
        self._call: contextlib.ExitStack | None = None
        #: torch's entry that the call runs in, where it is a function's
        self._entry: FrameType | None = None
        #: the compiler has not been used yet
        self._is_waiting = False
        #: what was replaced: its owner, its name, what it was, what it is
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def add(self, follower: Follower) -> None:
        """Keep it out from here on. Before the compiler's first use, ``torch.compile`` alone is changed."""
        self._followers.append(follower)
        if self._replaced:
            return
        if "torch._dynamo.eval_frame" in sys.modules:
            self._install_entries()
        else:
            self._wait()

    def _wait(self) -> None:
        original = torch.compile

        # others may have put theirs around it, or hold it, long after it was put back
        @functools.wraps(original)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            if self._is_waiting:
                self._put_back()
                self._install_entries()
            return original(*args, **kwargs)

        self._replace(torch, "compile", compiled)
        self._is_waiting = True

    def discard(self, follower: Follower) -> None:
        """It follows no longer."""
        self._followers.remove(follower)
        if not self._followers:
            self._put_back()

    def _put_back(self) -> None:
        self._is_waiting = False
        for owner, name, original, function in reversed(self._replaced):
            if getattr(owner, name) is function:
                setattr(owner, name, original)
        self._replaced.clear()

    def _replace(self, owner: Any, name: str, function: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name), function))
        setattr(owner, name, function)

    def _install_entries(self) -> None:
        check_parts(PARTS)
        from torch._dynamo import eval_frame, trace_rules

        trace_rules.add(__name__.partition(".")[0])
        entries: Any = eval_frame
        self._replace(entries, "_maybe_set_eval_frame", self._switching(entries._maybe_set_eval_frame))
        modules = entries.OptimizedModule
        self._replace(modules, "__call__", self._module_call(modules.__call__))

    def _switching(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``original`` switches compiled code on, and back to what there was before."""

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
        @functools.wraps(original)
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
        self._call = contextlib.ExitStack()
        self._call.enter_context(plain_environment())
        for follower in self._followers:
            follower.tell(args)
            self._call.enter_context(follower.away(module, optimizers))

    def _end(self, result: object) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.close()
        for follower in self._followers:
            follower.tell(result)


#: What enters compiled code is there once in a process.
COMPILED_CALLS = CompiledCalls()
