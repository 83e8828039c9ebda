"""Triton on the virtual device: a kernel's launch computes nothing and takes nothing.

A kernel writes to tensors that its caller has allocated, so the memory is there without it. Nothing is
compiled, and no driver is asked. What a launch takes for itself on a GPU is kept: autotuning's benchmark has
a separate buffer. Read in triton 3.9.0: runtime/jit.py, runtime/autotuner.py, runtime/_allocation.py,
testing.py, backends/nvidia/driver.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...hardware.gpus import Gpu
from ...units import MIB
from .after_import import after_import
from .known_values import KnownValues
from .ordinal import own_device, own_index
from .private import checked
from .refusals import refusal
from .torch_cuda import device_properties

#: What a benchmark clears before each run, to empty the L2 cache (``get_empty_cache_for_benchmark``).
BENCHMARK_BUFFER_BYTES: Final = 256 * MIB
#: A benchmark's result: no configuration is the faster one, and the first is taken.
_MILLISECONDS: Final = 1.0

SCRATCH: Final = (
    "Triton: what {} asks of the allocator that triton.set_allocator was given is not counted: it gets "
    "when a kernel is compiled"
)

#: (module, attribute path, what it is for) in triton. tests/devices/fake/test_triton_launches.py breaks each.
PRIVATE_PARTS: Final = (
    ("triton.runtime.jit", "JITFunction.run", "launching a Triton kernel"),
    ("triton.runtime.autotuner", "Autotuner.do_bench", "autotuning without running"),
    ("triton.runtime.autotuner", "Autotuner.check_disk_cache", "autotuning without compiling"),
    ("triton.runtime._allocation", "set_allocator", "kernels that ask for memory"),
    ("triton.runtime.driver", "driver.set_active", "Triton without a driver"),
    ("triton.testing", "do_bench", "benchmarks without running"),
)


class NotCompiled:
    """What a launch gives: the kernel as compiled, of which nothing is known."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise refusal(
            f"{self._name}.{attribute} is known after compiling the Triton kernel, which is not done on the "
            "virtual CUDA device that budgets are estimated on; launch it with a grid that does not "
            "depend on it"
        )


class TritonLaunches:
    """Detours Triton once it is imported, and keeps which kernels were launched."""

    def __init__(self, gpu: Callable[[], Gpu], known: KnownValues, note: Callable[[str], None]) -> None:
        """``note`` is called with what is not modelled."""
        self._gpu = gpu
        self._known = known
        self._note = note
        self._launched: dict[str, None] = {}
        self._has_allocator = False

    def install(self) -> None:
        """Change Triton's modules: now where they are imported, else as soon as they are."""
        after_import("triton.runtime.jit", _checked(self._detour_launches))
        after_import("triton.runtime.autotuner", _checked(self._detour_autotuning))
        after_import("triton.runtime._allocation", _checked(self._see_allocators))
        after_import("triton.runtime.driver", _checked(self._stand_in_as_driver))
        after_import("triton.testing", _checked(_detour_benchmarks))

    def texts(self) -> list[str]:
        """What is taken for granted, if a kernel was launched."""
        if not self._launched:
            return []
        return [
            f"Triton kernels ({', '.join(self._launched)}) compute nothing and allocate nothing: they work "
            "on tensors that their callers allocate"
        ]

    def _detour_launches(self, module: Any) -> None:
        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> NotCompiled:
            name = getattr(kernel, "__name__", "a kernel")
            if not warmup:
                for hook in getattr(kernel, "pre_run_hooks", ()):
                    hook(*args, **kwargs)
                self._saw(name, [*args, *kwargs.values()])
            return NotCompiled(name)

        module.JITFunction.run = run

    def _saw(self, name: str, operands: Sequence[Any]) -> None:
        self._launched[name] = None
        if self._has_allocator:
            self._note(SCRATCH.format(name))
        for tensor in _tensors_in(operands):
            self._may_be_written(tensor)

    def _may_be_written(self, tensor: torch.Tensor) -> None:
        """What was known of ``tensor`` may hold no more: whole numbers are mostly read, others written."""
        if tensor.dtype.is_floating_point or self._known.writable(tensor, assumed=True) is None:
            self._known.forget(tensor)

    def _detour_autotuning(self, module: Any) -> None:
        def do_bench(tuner: Any) -> Any:
            return tuner._do_bench if tuner._do_bench is not None else benchmark

        def check_disk_cache(tuner: Any, key: Any, configs: Any, bench_fn: Callable[[], None]) -> bool:
            bench_fn()
            return False

        module.Autotuner.do_bench = property(do_bench)
        module.Autotuner.check_disk_cache = check_disk_cache

    def _see_allocators(self, module: Any) -> None:
        original = module.set_allocator

        def set_allocator(allocator: Any) -> None:
            self._has_allocator = allocator is not None
            original(allocator)

        module.set_allocator = set_allocator

    def _stand_in_as_driver(self, module: Any) -> None:
        module.driver.set_active(VirtualDriver(self._gpu))


class VirtualDriver:
    """What Triton's driver for CUDA says, of the virtual device."""

    def __init__(self, gpu: Callable[[], Gpu]) -> None:
        self._gpu = gpu
        self.utils = SimpleNamespace(get_device_properties=self._properties)

    def get_current_device(self) -> int:
        """The current device's number."""
        return own_index()

    def get_current_stream(self, device: object = None) -> int:
        """The default stream."""
        return 0

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        """Of the card that the test is estimated for."""
        return self._gpu().capability

    def get_active_torch_device(self) -> torch.device:
        """The device that tensors are on."""
        return own_device()

    def get_device_interface(self) -> Any:
        """``torch.cuda``, which answers for the virtual device."""
        return torch.cuda

    def get_current_target(self) -> Any:
        """What kernels would be compiled for."""
        compiler: Any = importlib.import_module("triton.backends.compiler")
        major, minor = self._gpu().capability
        return compiler.GPUTarget("cuda", 10 * major + minor, 32)

    def get_benchmarker(self) -> Callable[..., Any]:
        """The replacement of ``triton.testing.do_bench``."""
        return benchmark

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """A buffer that is cleared between the runs of a benchmark."""
        return torch.empty(BENCHMARK_BUFFER_BYTES // 4, dtype=torch.int, device="cuda")

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Empty the L2 cache."""
        cache.zero_()

    def _properties(self, device: object = None) -> dict[str, int]:
        properties = device_properties(self._gpu())
        return {
            "max_shared_mem": properties.shared_memory_per_block_optin,
            "max_num_regs": properties.regs_per_multiprocessor,
            "multiprocessor_count": properties.multi_processor_count,
            "warpSize": properties.warp_size,
        }

    def __getattr__(self, name: str) -> Any:
        raise refusal(
            f"triton.runtime.driver.active.{name} is not part of the virtual CUDA device that budgets are "
            "estimated on"
        )


def benchmark(fn: Callable[[], Any], *args: Any, quantiles: Any = None, **kwargs: Any) -> Any:
    """``triton.testing.do_bench`` as far as memory goes: once without its buffer, and once with it."""
    fn()
    buffer = torch.empty(BENCHMARK_BUFFER_BYTES // 4, dtype=torch.int, device="cuda")
    buffer.zero_()
    fn()
    return _MILLISECONDS if quantiles is None else [_MILLISECONDS] * len(quantiles)


def _detour_benchmarks(module: Any) -> None:
    module.do_bench = benchmark


def _tensors_in(values: Sequence[Any]) -> Iterator[FakeTensor]:
    for value in values:
        if isinstance(value, FakeTensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors_in(value)
        elif isinstance(base := getattr(value, "base", None), FakeTensor):  # a tensor descriptor's
            yield base


def _checked(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return checked(change, PRIVATE_PARTS, "triton 3.6 to 3.9")
