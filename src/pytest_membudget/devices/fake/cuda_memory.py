"""``torch.cuda``'s questions about memory, answered by the allocator's model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...allocator.caching import CachingAllocator
from ...hardware.gpus import Gpu
from ...units import gib_text
from .refusals import refusal

_Allocator = Callable[[], CachingAllocator]


def memory_functions(gpu: Callable[[], Gpu], allocator: _Allocator) -> dict[str, Callable[..., Any]]:
    """``torch.cuda`` functions for memory."""
    reset = lambda device=None: allocator().reset_peaks()  # noqa: E731 - one of many names for one thing

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
        "memory_stats_as_nested_dict": lambda device=None: _nested(memory_stats(allocator())),
        "memory_summary": lambda device=None, abbreviated=False: _summary(memory_stats(allocator())),
        "empty_cache": lambda: allocator().empty_cache(),
        "reset_peak_memory_stats": reset,
        "reset_max_memory_allocated": reset,
        "reset_max_memory_cached": reset,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "mem_get_info": free_and_total,
        "device_memory_used": lambda device=None: gpu().total_bytes - free_and_total()[0],
        "get_allocator_backend": lambda: "native",
        **_fraction_functions(allocator),
        "host_memory_stats": OrderedDict,
        "host_memory_stats_as_nested_dict": dict,
        "reset_peak_host_memory_stats": lambda: None,
        "reset_accumulated_host_memory_stats": lambda: None,
        **_refused_functions(),
    }


def _fraction_functions(allocator: _Allocator) -> dict[str, Callable[..., Any]]:
    fractions = [1.0]

    def set_fraction(fraction: float, device: object = None) -> None:
        allocator().set_memory_fraction(fraction)
        fractions[0] = fraction

    return {
        "set_per_process_memory_fraction": set_fraction,
        "get_per_process_memory_fraction": lambda device=None: fractions[0],
    }


def memory_stats(allocator: CachingAllocator) -> OrderedDict[str, int]:
    """The statistics of the model under PyTorch's own keys; those it does not keep are absent."""
    rows = {
        "allocated_bytes": (allocator.allocated_bytes, allocator.peak_allocated_bytes),
        "active_bytes": (allocator.active_bytes, allocator.peak_active_bytes),
        "requested_bytes": (allocator.requested_bytes, allocator.peak_requested_bytes),
        "reserved_bytes": (allocator.reserved_bytes, allocator.peak_reserved_bytes),
    }
    splits, split_bytes = allocator.inactive_split()
    stats = {
        "allocation.all.current": allocator.num_allocations,
        "active.all.current": allocator.num_active_blocks,
        "segment.all.current": allocator.num_segments,
        "inactive_split.all.current": splits,
        "inactive_split_bytes.all.current": split_bytes,
        "num_alloc_retries": allocator.num_alloc_retries,
        "num_ooms": allocator.num_ooms,
        "num_sync_all_streams": allocator.num_sync_all_streams,
        "num_device_alloc": allocator.device.num_device_alloc,
        "num_device_free": allocator.device.num_device_free,
    }
    for name, (current, peak) in rows.items():
        stats[f"{name}.all.current"] = current
        stats[f"{name}.all.peak"] = peak
    return OrderedDict(sorted(stats.items()))


def _nested(stats: OrderedDict[str, int]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in stats.items():
        *path, last = key.split(".")
        inner = nested
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return nested


def _summary(stats: OrderedDict[str, int]) -> str:
    rows = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
    lines = [
        f"{row:16} {gib_text(stats[f'{row}.all.current']):>12} {gib_text(stats[f'{row}.all.peak']):>12}"
        for row in rows
    ]
    return "\n".join(["virtual CUDA device      current         peak", *lines])


def _refused_functions() -> dict[str, Any]:
    """Other allocators than the one that is modelled."""
    names = (
        "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable",
        "change_current_allocator", "CUDAPluggableAllocator", "MemPool", "use_mem_pool",
    )  # fmt: skip
    refused = {name: refuses(f"torch.cuda.{name}", "allocate with tensors there") for name in names}
    return {**refused, "_set_allocator_settings": other_settings()}


def other_settings() -> Any:
    """What refuses to change the allocator's settings while a test runs."""
    return refuses("another allocator setting", "set PYTORCH_CUDA_ALLOC_CONF where pytest is started")


def refuses(name: str, instead: str) -> Any:
    """A replacement of ``name``, which has no counterpart on the virtual device: it raises when called.

    A class where ``name`` is one: annotations use it.
    """

    def refuse(*args: object, **kwargs: object) -> Any:
        raise refusal(
            f"{name} is not part of the virtual CUDA device that budgets are estimated on; {instead}"
        )

    last = name.rpartition(".")[2]
    return type(last, (), {"__new__": refuse}) if last[0].isupper() or last == "graph" else refuse
