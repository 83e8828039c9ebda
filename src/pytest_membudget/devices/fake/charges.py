"""What an operator that has run costs: its results' storages, workspaces, and its kernel's temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...allocator.device_memory import OutOfMemory
from ...hardware.gpus import Gpu
from ...tracking.tracker import Tracker
from ...units import gib_text
from .attention_temporaries import attention_temporaries, missing_on_cuda
from .kernel_temporaries import kernel_temporaries
from .plans import Plan
from .private import torch_release
from .unmodelled import UnmodelledRuns
from .workspaces import Workspaces


class Charges:
    """Hands the tracker what a test's operators take on ``gpu``, and keeps what is not known of them."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._workspaces = Workspaces(gpu.capability, torch_release())
        self.unmodelled = UnmodelledRuns()

    def move_to(self, gpu: Gpu) -> None:
        """From here on the device is ``gpu``."""
        self._gpu = gpu
        self._workspaces.capability = gpu.capability

    def clear_workspaces(self, tracker: Tracker) -> None:
        """Free the workspaces that cuBLAS keeps."""
        self._workspaces.clear(tracker)

    def charge(
        self,
        tracker: Tracker,
        func: Any,
        plan: Plan,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """Record the results of ``func`` and its kernel's temporaries; may raise ``OutOfMemory``."""
        if type(result) is FakeTensor:
            if result.fake_device.type == "cuda":
                tracker.saw(result, plan.name, args)
            elif result.fake_device.type == "cpu":
                tracker.saw_on_host(result, plan.name)
        elif isinstance(result, (list, tuple)):
            skipped = missing_on_cuda(func, args) if plan.attention else ()
            for index, tensor in _as_asked_for(func, result):
                if on_cuda(tensor) and index not in skipped:
                    tracker.saw(tensor, plan.name, args)
                elif type(tensor) is FakeTensor and tensor.fake_device.type == "cpu":
                    tracker.saw_on_host(tensor, plan.name)
                elif type(tensor) is list:  # gradients of a layer's weights
                    for part in filter(on_cuda, tensor):
                        tracker.saw(part, plan.name, args)
        if plan.attention and on_cuda(args[0]):
            tracker.pass_through(attention_temporaries(func, args, self._gpu), plan.name)
        elif plan.kernel and is_on_device(result, args):
            sizes_bytes = kernel_temporaries(func, args, kwargs, result, self._gpu)
            # a product copies a matrix that cuBLAS cannot read as it lies before it asks for the workspace
            with tracker.held(sizes_bytes, plan.name):
                self._workspaces.serve(tracker, func, plan.name, args)
            if self._gpu.backend != "cuda":
                self.unmodelled.saw_elsewhere(plan.name)
        else:
            self._workspaces.serve(tracker, func, plan.name, args)
        if plan.unmodelled is not None and is_on_device(result, args):
            call = (args, kwargs, result, self._gpu)
            self.unmodelled.saw(plan.name, plan.unmodelled, call, tracker.source.find)


def _as_asked_for(func: Any, results: Sequence[Any]) -> Iterable[tuple[int, Any]]:
    """Each result with its place among them, in the order in which the operator takes their memory."""
    numbered = list(enumerate(results))
    # dropout_cuda in aten/src/ATen/native/cuda/Dropout.cu takes the mask before the result
    return reversed(numbered) if func is torch.ops.aten.native_dropout.default else numbered


def on_cuda(tensor: object) -> bool:
    """Whether ``tensor`` is a fake tensor with memory on the virtual device.

    Fake tensors only: a wrapper (DTensor) shows the global shape and owns no storage.
    """
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


def is_on_device(result: object, args: Sequence[Any]) -> bool:
    """Whether an operator ran on the virtual device: by its result, or by its first two arguments."""
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    return any(on_cuda(tensor) for tensor in (first, *args[:2]))


def out_of_memory_text(error: OutOfMemory, operator: str) -> str:
    """What could not be had; it begins as PyTorch's own message does, for code that looks at it."""
    reserved, allocated = gib_text(error.reserved_bytes), gib_text(error.allocated_bytes)
    capacity = error.capacity_bytes
    free = (
        f"{gib_text(capacity - error.reserved_bytes)} of {gib_text(capacity)} free, "
        if capacity is not None
        else ""
    )
    return (
        f"CUDA out of memory. Tried to allocate {gib_text(error.requested_bytes)} in {operator}; "
        f"{free}{reserved} reserved, {allocated} of it allocated"
    )
