"""Inductor's wrapper code, run on the virtual device: what it allocates is charged, its kernels do nothing.

Inductor turns a graph into Python code that allocates buffers, launches kernels, calls libraries' operators,
reuses and deletes buffers. Memory is in that code, not in the kernels: a launch allocates nothing. So the
code runs unchanged, with kernels whose launches are empty, and with torch's own allocation functions,
which bypass the dispatcher, replaced by operators that the device's mode sees.
"""

from __future__ import annotations

import builtins
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...tracking.record import Record
from .mode import VirtualMode
from .ordinal import own_device

#: ``<...>`` is nobody's file: no line of it is shown as the user's.
FILE = "<compiled by inductor>"

_ALLOCATES = "aten::empty_strided"
#: Arguments of a generated kernel are named by what it does with them; those of a user's own are not.
_ONLY_READ = ("in_ptr", "ks", "xnumel", "ynumel", "znumel", "rnumel", "r0_numel", "r1_numel")


class Kernel:
    """A generated kernel, launched on fake tensors: it writes to what it was given and allocates nothing."""

    def __init__(self, name: str, source: object, wrote: Callable[[torch.Tensor, str], None]) -> None:
        self._name = name
        self._arguments = _arguments(name, source)
        self._wrote = wrote

    def run(self, *args: Any, **kwargs: Any) -> None:
        """One launch."""
        for position, value in enumerate(args):
            if isinstance(value, FakeTensor) and not self._only_reads(position):
                self._wrote(value, self._name)

    __call__ = run

    def _only_reads(self, position: int) -> bool:
        names = self._arguments
        return position < len(names) and names[position].startswith(_ONLY_READ)


class CompiledCode:
    """Makes modules of wrapper code for ``mode``'s device."""

    def __init__(self, mode: VirtualMode) -> None:
        self._mode = mode
        #: how often compiled code ran
        self.runs = 0

    def module(self, source: str) -> types.ModuleType:
        """The module that ``source`` makes, its ``call`` ready to be called with a list of inputs."""
        module = types.ModuleType("compiled_by_inductor")
        module.__file__ = FILE
        names = vars(module)
        names.update(key=FILE, __builtins__={**vars(builtins), "__import__": self._import})
        exec(compile(source, FILE, "exec"), names)
        names.update(self._functions())
        if "extern_kernels" in names:
            names["extern_kernels"] = _Named(names["extern_kernels"], self._wrote)
        names["call"] = self.counted(names["call"])
        return module

    def template(self) -> types.ModuleType:
        """What a kernel that comes from a template (FlexAttention) is loaded as: nothing of it is called."""
        module = _StandIn("kernel_from_a_template")
        vars(module).update(__file__=FILE, key=FILE)
        return module

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, a region's code, counted where it runs."""

        def counted(*args: Any) -> Any:
            self.runs += 1
            return call(*args)

        return counted

    def _functions(self) -> dict[str, Any]:
        return {
            "empty_strided_cuda": self._new,
            "empty_strided_cpu": _new_on_host,
            "empty_strided_cpu_pinned": lambda *args: _new_on_host(*args).pin_memory(),
            "reinterpret_tensor": _reinterpret,
            "copy_if_misaligned": lambda tensor: tensor,
            "assert_size_stride": _nothing,
            "assert_alignment": _nothing,
        }

    def _new(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        buffer = torch.empty_strided(size, stride, dtype=dtype, device=own_device())
        record = self._record(buffer)
        if record is not None:
            record.from_inputs = False  # it comes from no tensor, as a batch does
        return buffer

    def _record(self, tensor: torch.Tensor) -> Record | None:
        tracker = self._mode.tracker
        return tracker.record_of(tensor) if tracker is not None else None

    def _import(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        """``import`` in wrapper code: what needs a driver or Triton is stood in for."""
        if name == "torch._inductor.async_compile":
            return types.SimpleNamespace(AsyncCompile=lambda: _Kernels(self._wrote))
        if name.partition(".")[0] == "triton" or name == "torch._inductor.runtime.triton_heuristics":
            return _StandIn(name)
        if name == "torch._C" and any("getCurrentRawStream" in one for one in fromlist or ()):
            return types.SimpleNamespace(**{one: lambda index: 0 for one in fromlist})
        return builtins.__import__(name, globals, locals, fromlist, level)

    def _wrote(self, tensor: torch.Tensor, by: str) -> None:
        """``by`` wrote to ``tensor``: what was known of its values is not so any more."""
        self._mode.known.forget(tensor)
        record = self._record(tensor)
        if record is not None and record.operator == _ALLOCATES:
            record.operator = by


class _Kernels:
    """What wrapper code makes its kernels with (``AsyncCompile``); C++ ones are launched as Triton's are."""

    def __init__(self, wrote: Callable[[torch.Tensor, str], None]) -> None:
        self._wrote = wrote

    def triton(self, name: str, source: object, *args: object, **kwargs: object) -> Kernel:
        return Kernel(name, source, self._wrote)

    def wait(self, names: object) -> None:
        pass

    def __getattr__(self, kind: str) -> Callable[..., Kernel]:
        return lambda *args, **kwargs: Kernel(kind, None, self._wrote)


class _Named:
    """``extern_kernels``: libraries' operators, which write to ``out`` and lend it their names."""

    def __init__(self, kernels: Any, wrote: Callable[[torch.Tensor, str], None]) -> None:
        self._kernels = kernels
        self._wrote = wrote

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._kernels, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = kernel(*args, **kwargs)
            if isinstance(out := kwargs.get("out"), torch.Tensor):
                self._wrote(out, f"aten::{name}")
            return result

        return call


class _StandIn(types.ModuleType):
    """A module of which wrapper code only takes names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def with_random_states(original: Callable[..., Any]) -> Callable[..., Any]:
    """A mode's dispatch method that also runs operators at a kept random state (checkpointed attention)."""
    operator: Any = getattr(torch.ops.higher_order, "graphsafe_run_with_rng_state", None)

    def dispatch(mode: Any, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if func is not operator or operator is None:
            return original(mode, func, types, args, kwargs)
        with mode:  # nothing is drawn
            return args[0](*args[1:], **{key: kwargs[key] for key in kwargs if key != "rng_state"})

    return dispatch


def _arguments(name: str, source: object) -> list[str]:
    if not isinstance(source, str):
        return []
    found = re.search(rf"def {re.escape(name)}\(([^)]*)\)", source)
    return [one.partition(":")[0].strip() for one in found[1].split(",")] if found else []


def _new_on_host(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu")


def _reinterpret(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int = 0
) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def _nothing(*args: object, **kwargs: object) -> None:
    return None
