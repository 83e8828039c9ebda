"""``torch.cuda`` of a machine with a GPU that is not there: what it is, its tools."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from ...hardware.gpus import Gpu
from .cuda_memory import refuses
from .ordinal import check_exists, check_ordinal, own_index, place

#: The CUDA of the default wheels of 2.11 to 2.14 on PyPI, where the installed build has none.
CUDA_VERSION = "13.0"
#: cuDNN 9.10.2, NCCL 2.27.5: what code that asks for a minimum must find; no figure depends on them.
CUDNN_VERSION = 91002
NCCL_VERSION = (2, 27, 5)


class CudaDevice:
    """``torch.cuda.device``: the process's own device is always current."""

    def __init__(self, device: object = None) -> None:
        check_ordinal(device)
        self.idx = self.prev_idx = own_index()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class DeviceOf(CudaDevice):
    """``torch.cuda.device_of``: the device of a tensor, wherever it lies."""

    def __init__(self, obj: object) -> None:
        super().__init__()


def device_properties(gpu: Gpu) -> SimpleNamespace:
    """What ``torch.cuda.get_device_properties`` gives for ``gpu``."""
    major, minor = gpu.capability
    return SimpleNamespace(
        name=gpu.name,
        major=major,
        minor=minor,
        total_memory=gpu.total_bytes,
        multi_processor_count=gpu.multiprocessor_count,
        warp_size=32,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448 if major >= 9 else 166912,
        shared_memory_per_multiprocessor=233472 if major >= 9 else 167936,
        L2_cache_size=50 * 2**20,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        uuid="GPU-00000000-0000-0000-0000-000000000000",
    )


def query_functions(gpu: Callable[[], Gpu]) -> dict[str, Any]:
    """``torch.cuda`` functions that say what the device is."""

    def about(value: Callable[[], Any]) -> Callable[..., Any]:
        def answer(device: object = None) -> Any:
            check_exists(device)
            return value()

        return answer

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: place().node_gpus,
        "current_device": own_index,
        "set_device": check_ordinal,
        "synchronize": about(lambda: None),
        "ipc_collect": lambda: None,
        "get_device_name": about(lambda: gpu().name),
        "get_device_capability": about(lambda: gpu().capability),
        "get_device_properties": about(lambda: device_properties(gpu())),
        "get_arch_list": lambda: ["sm_{}{}".format(*gpu().capability)],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or _is_ampere(gpu()),
        "is_tf32_supported": lambda: _is_ampere(gpu()),
        **_fixed_functions(),
        **_idle_functions(),
        **_graph_functions(),
    }


def _fixed_functions() -> dict[str, Any]:
    """Answers that are the same for every card."""
    return {
        "can_device_access_peer": lambda device, peer: False,
        "is_current_stream_capturing": lambda: False,
        "current_blas_handle": lambda: 1,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: None,
        "device": CudaDevice,
        "device_of": DeviceOf,
        "_DeviceGuard": CudaDevice,
    }


def _is_ampere(gpu: Gpu) -> bool:
    return gpu.capability >= (8, 0)


def _idle_functions() -> dict[str, Any]:
    """What a management library or the driver would say of a card on which nothing runs."""
    success = SimpleNamespace(success=0)
    runtime = SimpleNamespace(
        cudaError=success,
        cudaProfilerStart=lambda: 0,
        cudaProfilerStop=lambda: 0,
        cudaHostRegister=lambda *args: 0,
        cudaHostUnregister=lambda *args: 0,
        cudaGetErrorString=lambda code: "no error",
        cudaMemGetInfo=lambda device=0: torch.cuda.mem_get_info(),
    )
    idle = dict.fromkeys(("utilization", "memory_usage", "temperature", "power_draw", "clock_rate"), _zero)
    return {
        **idle,
        "cudart": lambda: runtime,
        "check_error": lambda code: None,
        "list_gpu_processes": lambda device=None: "GPU:0\nno processes are running",
        "_sleep": lambda cycles: None,
    }


def _zero(device: object = None) -> int:
    return 0


def _graph_functions() -> dict[str, Any]:
    names = ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle")
    return {
        name: refuses(f"torch.cuda.{name}", "estimate the step without CUDA graphs, whose pools hold more")
        for name in names
    }


def tool_functions() -> dict[str, dict[str, Callable[..., Any]]]:
    """Functions of submodules of ``torch.cuda``: nobody looks at marks and profiles of what is not there."""
    return {
        "torch.cuda.nvtx": {
            "range_push": lambda msg: 0,
            "range_pop": lambda: 0,
            "range_start": lambda msg: 0,
            "range_end": lambda range_id: None,
            "mark": lambda msg: None,
        },
        "torch.cuda.profiler": {
            "init": lambda *args, **kwargs: None,
            "start": lambda: None,
            "stop": lambda: None,
            "profile": _nothing,
        },
        "torch.cuda.nccl": {"version": lambda: NCCL_VERSION},
        # what init_process_group itself asks is in ``distributed_c10d``
        "torch.distributed": {"is_nccl_available": lambda: True},
    }


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield
