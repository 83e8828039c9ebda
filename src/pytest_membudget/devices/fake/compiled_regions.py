"""``torch.compile`` on the virtual device: PyTorch's own compiler, and a report that says where it was used.

Dynamo, AOTAutograd and inductor run as they do on a machine with a GPU (see ``compiled_inductor``), so graph
breaks, recompilations, what is saved for backward and which buffers there are, are theirs. A region runs
without the hooks that follow modules: dynamo would compile them too.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import nn

from ...errors import UnsupportedTorch
from ...tracking.running_code.modules import module_of, optimizers_of, plain_environment
from ...tracking.running_code.source import shown_path
from . import compiled_autograd, compiled_dynamo, compiled_inductor
from .compiled_code import CompiledCode, with_random_states
from .mode import VirtualMode
from .private import check_parts

METHOD = (
    "saved tensors and buffers are those of PyTorch {version}'s own compiler for this card (min-cut "
    "partitioner, inductor's fusion and reuse of buffers); its kernels are not run"
)
EAGER = "torch.compile: {} is traced as eager code, which keeps what a compiled one fuses away ({})"
NOTHING = (
    "torch.compile: PyTorch compiled nothing of {} (TORCH_LOGS=graph_breaks says why): it is estimated as "
    "the eager code that it runs as"
)
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)')
#: places that are listed by themselves
_LISTED = 5

#: (module, attribute path, what it is for): see ``private``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._dynamo.trace_rules", "add", "compiled regions: keeping this package's code out of them"),
    ("torch._dynamo.eval_frame", "OptimizedModule.__call__", "compiled modules"),
    *compiled_dynamo.PARTS,
    *compiled_autograd.PARTS,
    *compiled_inductor.PARTS,
)


class Follower(Protocol):
    """What follows modules and optimizers, and can be kept out of a region."""

    def paused(self, module: nn.Module | None, optimizers: list[torch.optim.Optimizer]) -> Any:
        """A context in which nothing is followed but that ``module`` runs and ``optimizers`` step."""


class CompiledRegions:
    """The regions that a test compiles, from the first ``torch.compile`` on."""

    def __init__(self, mode: VirtualMode, note: Callable[[str], None], follower: Follower) -> None:
        """``note`` is called with what is not modelled."""
        self._mode = mode
        self.note = note
        self._follower = follower
        self._code = CompiledCode(mode)
        #: what was to be compiled, and was not
        self._eager: dict[str, None] = {}
        #: modules that another backend compiles
        self._by_others: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._places: dict[tuple[str, int, str], None] = {}
        self._original: Callable[..., Any] = torch.compile
        self._before: dict[str, dict[str, Any]] = {}
        #: None before the first use; then why nothing can be compiled, empty where all is well
        self._obstacle: str | None = None

    def learn(self) -> None:
        """Before the device is installed: let dynamo know torch's functions by what they still are."""
        self._before = compiled_dynamo.functions_before()

    def install(self) -> None:
        """Replace ``torch.compile``; nothing else is changed before it is called."""

        @functools.wraps(self._original)
        def compiled(model: Any = None, **options: Any) -> Any:
            if model is None:
                return lambda given: compiled(given, **options)
            obstacle = self._prepare()
            if obstacle:
                self.note(EAGER.format(_name(model), obstacle))
                return model
            made = self._original(model, **options)
            is_inductor = options.get("backend", "inductor") == "inductor" and not options.get("disable")
            if not isinstance(model, nn.Module):
                return self._region(made, model, is_inductor)
            if not is_inductor:
                self._by_others.add(made)
            return made

        torch.compile = compiled

    def assumptions(self, root: str) -> list[str]:
        """A sentence for each place whose code was compiled."""
        method = METHOD.format(version=torch.__version__.partition("+")[0])
        places = [f"{shown_path(file, root)}:{line} in {name}" for file, line, name in self._places]
        lines = [f"torch.compile: {place}: {method}" for place in places[:1]]
        lines += [f"torch.compile: {place}: likewise" for place in places[1:_LISTED]]
        if len(places) > _LISTED:
            lines.append(f"torch.compile: {len(places) - _LISTED} more regions: likewise")
        return [*lines, *self._eager]

    def _prepare(self) -> str:
        if self._obstacle is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # torch's warnings on its parts when they are imported
                    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # of Triton
                    check_parts(PARTS)
                    self._install_compiler()
                self._obstacle = ""
            except UnsupportedTorch as error:
                self._obstacle = str(error)
        return self._obstacle

    def _install_compiler(self) -> None:
        from torch._dynamo import trace_rules

        compiled_autograd.install_functional_devices()
        compiled_inductor.install_inductor(self._code)
        compiled_inductor.InductorBackend(self._code, self).install()
        modes: Any = VirtualMode
        # between the parts of a region that a graph break cut, dynamo looks at each frame, also at the mode's
        modes.__torch_dispatch__ = torch._dynamo.disable(with_random_states(modes.__torch_dispatch__))
        trace_rules.add(__name__.partition(".")[0])
        compiled_dynamo.introduce_replaced(self._before)
        compiled_dynamo.install_frames(self._keep_eager)
        compiled_dynamo.install_streams()
        compiled_dynamo.install_optimizers(self._mode)
        self._install_modules()

    def _keep_eager(self, holder: Any) -> None:
        self.note(EAGER.format(_name(holder), "it works on DTensors"))
        self._code.runs += 1  # reported already

    def _install_modules(self) -> None:
        from torch._dynamo.eval_frame import OptimizedModule

        modules: Any = OptimizedModule
        original, regions = modules.__call__, self

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            inside = module._orig_mod
            with regions._entered(inside, inside, [], module not in regions._by_others):
                return original(module, *args, **kwargs)

        modules.__call__ = call

    def _region(
        self, made: Callable[..., Any], function: Callable[..., Any], is_inductor: bool
    ) -> Callable[..., Any]:
        """``made``, what torch makes of ``function``, so that a call is followed as a whole."""

        @functools.wraps(made)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._entered(function, module_of(function), optimizers_of(function), is_inductor):
                return made(*args, **kwargs)

        return run

    @contextlib.contextmanager
    def _entered(
        self,
        region: Any,
        module: nn.Module | None,
        optimizers: list[torch.optim.Optimizer],
        is_inductor: bool,
    ) -> Iterator[None]:
        runs = self._code.runs
        with self._follower.paused(module, optimizers), plain_environment():
            yield
        if is_inductor and self._code.runs == runs:
            self._eager[NOTHING.format(_name(region))] = None

    def compiled(self, graph: Any) -> None:
        """A graph of dynamo's was compiled."""
        self._places[_place_of(graph)] = None

    def failed(self, graph: Any, error: Exception) -> None:
        """A graph of dynamo's could not be compiled: it runs as eager code."""
        file, line, name = _place_of(graph)
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        self.note(EAGER.format(f"{name} ({shown_path(file, os.getcwd())}:{line})", reason))


def _place_of(graph: Any) -> tuple[str, int, str]:
    """File, line and function of the first operator in a graph of dynamo's."""
    for node in graph.graph.nodes:
        found = _PLACE.search(node.meta.get("stack_trace") or "")
        if found is not None:
            return found["file"], int(found["line"]), found["name"]
    return "torch", 0, "a graph"


def _name(model: Any) -> str:
    """A function's name; of a module, or of a method of one, its class's."""
    owner = model if isinstance(model, nn.Module) else getattr(model, "__self__", None)
    kind = type(owner if isinstance(owner, nn.Module) else model).__name__
    return str(kind if isinstance(owner, nn.Module) else getattr(model, "__qualname__", kind))
