"""``torch.cuda`` of a machine with one GPU that is not there."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from ..allocator import CachingAllocator
from ..gpus import Gpu

_Allocator = Callable[[], CachingAllocator]


class Stream:
    """A CUDA stream on which nothing runs; work is done when it is asked for."""

    def __init__(self, device: object = None, priority: int = 0, **_: object) -> None:
        self.device = torch.device("cuda", 0)
        self.priority = priority
        self.stream_id = 0
        self.device_index = 0
        self.device_type = 1
        self.cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def query(self) -> bool:
        """All work is done."""
        return True

    def is_capturing(self) -> bool:
        """No graph is being captured."""
        return False

    def synchronize(self) -> None:
        """All work is done."""

    def wait_stream(self, stream: object) -> None:
        """All work of the other stream is done."""

    def wait_event(self, event: object) -> None:
        """All work before the event is done."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event that has happened."""
        return event or Event()


class Event:
    """A CUDA event that has happened; no time passes between two of them that anyone could measure."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **_: object) -> None:
        self.device = torch.device("cuda", 0)
        self.cuda_event = 0

    def record(self, stream: object = None) -> None:
        """It has happened."""

    def wait(self, stream: object = None) -> None:
        """It has happened."""

    def query(self) -> bool:
        """It has happened."""
        return True

    def synchronize(self) -> None:
        """It has happened."""

    def elapsed_time(self, end_event: object) -> float:
        """A plausible number of milliseconds: code divides by it."""
        return 1.0


class CudaDevice:
    """``torch.cuda.device``: the one device is always current."""

    def __init__(self, device: object = None) -> None:
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


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
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448 if major >= 9 else 166912,
        L2_cache_size=50 * 2**20,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
        uuid="GPU-00000000-0000-0000-0000-000000000000",
    )


def memory_stats(allocator: CachingAllocator) -> OrderedDict[str, int]:
    """The statistics of the model under PyTorch's own keys; those it does not keep are absent."""
    rows = {
        "allocated_bytes": (allocator.allocated_bytes, allocator.peak_allocated_bytes),
        "active_bytes": (allocator.active_bytes, allocator.peak_active_bytes),
        "requested_bytes": (allocator.requested_bytes, allocator.peak_requested_bytes),
        "reserved_bytes": (allocator.reserved_bytes, allocator.peak_reserved_bytes),
    }
    stats: OrderedDict[str, int] = OrderedDict()
    for name, (current, peak) in rows.items():
        stats[f"{name}.all.current"] = current
        stats[f"{name}.all.peak"] = peak
    stats["num_alloc_retries"] = allocator.num_alloc_retries
    stats["num_ooms"] = allocator.num_ooms
    return stats


def query_functions(gpu: Callable[[], Gpu]) -> dict[str, Callable[..., Any]]:
    """``torch.cuda`` functions that say what the device is."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "ipc_collect": lambda: None,
        "get_device_name": lambda device=None: gpu().name,
        "get_device_capability": lambda device=None: gpu().capability,
        "get_device_properties": lambda device=None: device_properties(gpu()),
        "get_arch_list": lambda: ["sm_{}{}".format(*gpu().capability)],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or _is_ampere(gpu()),
        "is_tf32_supported": lambda: _is_ampere(gpu()),
        "can_device_access_peer": lambda device, peer: False,
        "is_current_stream_capturing": lambda: False,
        "current_blas_handle": lambda: 1,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: None,
        "utilization": lambda device=None: 0,
    }


def _is_ampere(gpu: Gpu) -> bool:
    return gpu.capability >= (8, 0)


def stream_functions() -> dict[str, Any]:
    """``torch.cuda`` names for streams and events, on which nothing waits."""
    current = Stream()

    @contextlib.contextmanager
    def stream_context(stream: Stream | None) -> Iterator[None]:
        yield

    return {
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "device": CudaDevice,
        "device_of": CudaDevice,
        "_DeviceGuard": CudaDevice,
        "StreamContext": stream_context,
        "stream": stream_context,
        "current_stream": lambda device=None: current,
        "default_stream": lambda device=None: current,
        "set_stream": lambda stream: None,
    }


def random_functions() -> dict[str, Callable[..., Any]]:
    """``torch.cuda`` functions for random states: there is no generator, so there is nothing to keep.

    A state is 16 bytes, seed and offset, as CUDA's Philox generator has it.
    """

    def state(device: object = "cuda") -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8, device="cpu")

    return {
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "seed": lambda: None,
        "seed_all": lambda: None,
        "initial_seed": lambda: 0,
        "get_rng_state": state,
        "get_rng_state_all": lambda: [state()],
        "set_rng_state": lambda new_state, device="cuda": None,
        "set_rng_state_all": lambda new_states: None,
    }


def memory_functions(gpu: Callable[[], Gpu], allocator: _Allocator) -> dict[str, Callable[..., Any]]:
    """``torch.cuda`` functions for memory, answered by the allocator's model."""
    reset = lambda device=None: allocator().reset_peaks()  # noqa: E731 - one of two names for one thing

    def free_and_total(device: object = None) -> tuple[int, int]:
        return gpu().usable_bytes - allocator().reserved_bytes, gpu().total_bytes

    return {
        "memory_allocated": lambda device=None: allocator().allocated_bytes,
        "max_memory_allocated": lambda device=None: allocator().peak_allocated_bytes,
        "memory_reserved": lambda device=None: allocator().reserved_bytes,
        "max_memory_reserved": lambda device=None: allocator().peak_reserved_bytes,
        "memory_cached": lambda device=None: allocator().reserved_bytes,
        "max_memory_cached": lambda device=None: allocator().peak_reserved_bytes,
        "memory_stats": lambda device=None: memory_stats(allocator()),
        "memory_summary": lambda device=None, abbreviated=False: str(dict(memory_stats(allocator()))),
        "empty_cache": lambda: allocator().empty_cache(),
        "reset_peak_memory_stats": reset,
        "reset_max_memory_allocated": reset,
        "reset_max_memory_cached": reset,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "mem_get_info": free_and_total,
        "device_memory_used": lambda device=None: gpu().total_bytes - free_and_total()[0],
        "get_allocator_backend": lambda: "native",
        "set_per_process_memory_fraction": lambda fraction, device=None: None,
    }
