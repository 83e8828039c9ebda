"""Inductor on a machine with neither CUDA nor Triton, as far as the code that allocates.

From dynamo's graph on, everything up to the wrapper code is torch's own: the joint graph and its partition
into forward and backward (what is saved), lowering, fusion, the order of kernels, the reuse of buffers. Left
out is what makes and launches kernels: Triton, autotuning, CUDA graphs, and caches on disk, which must not
hold what was compiled for a card that is not there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .compiled_code import CompiledCode

#: How inductor is set while it compiles for a card that is not there.
SETTINGS: dict[str, Any] = {
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "compile_threads": 1,
    "cpp_wrapper": False,
    "benchmark_kernel": False,
    "benchmark_fusion": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "max_autotune_pointwise": False,
    "coordinate_descent_tuning": False,
    "triton.cudagraphs": False,
    "triton.autotune_at_compile_time": False,
    "triton.multi_kernel": 0,
}
_JOINT_SETTINGS: dict[str, Any] = {"enable_autograd_cache": False, "force_non_lazy_backward_lowering": True}

_GRAPHS = (
    "CUDA graphs of torch.compile(mode='reduce-overhead' or 'max-autotune', or triton.cudagraphs): their "
    "private pools and copies of inputs are not counted; estimated as compiled without them"
)
#: Such code takes nothing of the card.
HOST = "torch.compile: code that runs on the host is traced as eager code"
_AUTOTUNING = (
    "autotuning of torch.compile (max_autotune): matrix products are taken as cuBLAS's, and what tuning "
    "itself takes is not counted"
)


def install_inductor(code: CompiledCode) -> None:
    """Let inductor compile for cuda here; its wrapper code runs as ``code`` does. For the whole process."""
    from torch._inductor import config

    config.compile_threads = 1  # before its pool of processes is started
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.graph import GraphLowering

    _install_card()
    _install_constants()
    _install_padding()
    graphs: Any = GraphLowering
    graphs._compile_to_module_lines = lambda graph, source: code.module(source.value)
    sources: Any = PyCodeCache
    sources.load = classmethod(lambda cls, *args, **kwargs: code.template())
    # a text for debuggers, made for every graph, that starts nvcc: what starts a process is never cached
    reproductions: Any = importlib.import_module("torch._dynamo.repro.after_aot")
    reproductions.save_graph_repro = lambda *args, **kwargs: None


def _install_card() -> None:
    """What inductor asks of a card, and of Triton, answered without a driver."""
    from torch._dynamo import device_interface
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _triton

    interface = type("VirtualCudaInterface", (device_interface.CudaInterface,), _interface_functions())
    device_interface.init_device_reg()
    device_interface.register_interface_for_device("cuda", interface)
    scheduler: Any = importlib.import_module("torch._inductor.scheduler")
    scheduler.has_triton = lambda: True
    _triton.triton_hash_with_backend = lambda: ""  # type: ignore[assignment]
    modes: Any = FakeTensorMode
    modes.avoid_device_init = property(lambda mode: True)


def _interface_functions() -> dict[str, Any]:
    """``CudaInterface`` bound torch.cuda's functions when it was imported."""
    names = (
        "current_device", "set_device", "device_count", "stream", "current_stream", "set_stream",
        "synchronize", "get_device_properties", "memory_allocated", "is_bf16_supported",
    )  # fmt: skip
    functions = {name: staticmethod(getattr(torch.cuda, name)) for name in names}
    same = staticmethod(lambda index: index)
    return {
        **functions,
        "get_raw_stream": staticmethod(lambda index: 0),
        "exchange_device": same,
        "maybe_exchange_device": same,
        "raise_if_triton_unavailable": staticmethod(lambda device=None: None),
    }


class _OnHost(TorchDispatchMode):
    """Computes small constants on the host, where inductor would on the card."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        return func(*(_host(value) for value in args), **kwargs)


def _host(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _install_padding() -> None:
    """Products are padded where that is faster, which is timed on the card: without timing, they are not.

    ``is_mm_compute_bound`` is what ``_should_pad`` asks before it makes real tensors to time.
    """
    padding: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
    padding.is_mm_compute_bound = lambda *args: False


def _install_constants() -> None:
    """Constant folding computes values; only the numbers are used."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder

    folder: Any = UniformValueConstantFolder
    for name in ("__init__", "run"):  # what is multiplied by 0 is a constant already when it is made
        setattr(folder, name, _on_host(getattr(folder, name)))
    copy: Any = torch.ops.prims.device_put.default
    original = copy._op

    def device_put(tensor: Any, device: Any, *args: Any, **kwargs: Any) -> Any:
        if type(tensor) is torch.Tensor and torch.device(device).type == "cuda" and _is_real(tensor):
            return tensor  # a list's numbers in a graph, for a read of their values
        return original(tensor, device, *args, **kwargs)

    copy._op = device_put


def _on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _OnHost():
            return function(*args, **kwargs)

    return run


def _is_real(tensor: torch.Tensor) -> bool:
    return not torch._is_functional_tensor(tensor) and tensor.device.type == "cpu"


class Watcher(Protocol):
    """Receives what is compiled."""

    def note(self, text: str) -> None:
        """Something is not modelled."""

    def compiled(self, graph: Any) -> None:
        """A graph of dynamo's was compiled."""

    def failed(self, graph: Any, error: Exception) -> None:
        """A graph of dynamo's could not be compiled: it runs as eager code."""


class InductorBackend:
    """``compile_fx`` for the virtual device."""

    def __init__(self, code: CompiledCode, watcher: Watcher) -> None:
        self._code = code
        self._watcher = watcher
        self._depth = 0
        self._original: Callable[..., Any]

    def install(self) -> None:
        """Put it where ``torch.compile`` looks for inductor."""
        import torch._inductor.compile_fx as own

        self._original = own.compile_fx
        own.compile_fx = self._compile  # type: ignore[assignment]

    def _compile(
        self, model: Any, inputs: Sequence[Any], *args: Any, config_patches: Any = None, **kwargs: Any
    ) -> Any:
        if self._depth:  # it calls itself by its name
            return self._original(model, inputs, *args, config_patches=config_patches, **kwargs)
        if not any(_on_card(value) for value in (*inputs, *_values(model))):
            self._watcher.note(HOST)
            return self._code.counted(model)
        wanted = dict(config_patches or {})
        self._note_modes(wanted)
        self._depth += 1
        try:
            with _compiling(wanted):
                compiled = self._original(model, inputs, *args, **kwargs)
        except Exception as error:
            self._watcher.failed(model, error)
            return self._code.counted(model)
        finally:
            self._depth -= 1
        self._watcher.compiled(model)
        return compiled

    def _note_modes(self, wanted: Mapping[str, Any]) -> None:
        from torch._inductor import config

        own: Any = config
        if wanted.get("triton.cudagraphs", own.triton.cudagraphs):
            self._watcher.note(_GRAPHS)
        if any(wanted.get(name, getattr(own, name)) for name in ("max_autotune", "max_autotune_gemm")):
            self._watcher.note(_AUTOTUNING)


@contextlib.contextmanager
def _compiling(wanted: Mapping[str, Any]) -> Iterator[None]:
    with (
        _settings("torch._inductor.config", {**wanted, **SETTINGS}),
        _settings("torch._functorch.config", _JOINT_SETTINGS),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # advice on speed
        yield


@contextlib.contextmanager
def _settings(module: str, values: Mapping[str, Any]) -> Iterator[None]:
    config: Any = importlib.import_module(module)
    with config.patch({name: value for name, value in values.items() if _has(config, name)}):
        yield


def _has(config: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(config, part):
            return False
        config = getattr(config, part)
    return True


def _on_card(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _values(model: Any) -> Iterator[object]:
    for node in model.graph.nodes:
        value = node.meta.get("example_value", node.meta.get("val"))
        yield from value if isinstance(value, (list, tuple)) else (value,)


#: (module, attribute path, what it is for): see ``private``.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._inductor.compile_fx", "compile_fx", "compiled regions: torch.compile's own backend"),
    ("torch._inductor.graph", "GraphLowering._compile_to_module_lines", "compiled regions: running the code"),
    ("torch._inductor.codecache", "PyCodeCache.load", "compiled regions: kernels from templates"),
    ("torch._dynamo.repro.after_aot", "save_graph_repro", "compiled regions: no process is started"),
    ("torch._inductor.fx_passes.pad_mm", "is_mm_compute_bound", "compiled regions: no product is timed"),
    ("torch._inductor.scheduler", "has_triton", "compiled regions: no Triton is needed"),
    ("torch.utils._triton", "triton_hash_with_backend", "compiled regions: no Triton is needed"),
    (
        "torch._inductor.fx_passes.joint_graph",
        "UniformValueConstantFolder.run",
        "compiled regions: constants computed on the host",
    ),
    ("torch", "ops.prims.device_put.default._op", "compiled regions: constants computed on the host"),
    ("torch._dynamo.device_interface", "CudaInterface", "compiled regions: what inductor asks of a card"),
    ("torch._dynamo.device_interface", "init_device_reg", "compiled regions: what inductor asks of a card"),
    (
        "torch._dynamo.device_interface",
        "register_interface_for_device",
        "compiled regions: what inductor asks of a card",
    ),
    ("torch._functorch.config", "force_non_lazy_backward_lowering", "compiled regions: backward's code"),
    ("torch._inductor.config", "fx_graph_cache", "compiled regions: no caches on disk"),
)
