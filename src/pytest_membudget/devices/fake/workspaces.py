"""cuBLAS workspaces: device memory that the library takes through the allocator.

Read in aten/src/ATen/cuda/CublasHandlePool.cpp, CUDABlas.cpp and aten/src/ATen/native/cuda/Blas.cpp (sizes:
``cublas.py``). The rules differ by release:

=========== ================================================ ==========================================
torch       cuBLAS workspace                                 cuBLASLt (``addmm`` with a bias)
=========== ================================================ ==========================================
2.11        kept, one a thread and stream                    separate 1 MiB, kept; takes cuBLAS's too
2.12 - 2.14 kept, one a thread and stream                    shares cuBLAS's
2.15        allocated for each operator, freed at its end    1 MiB for each operator, freed at its end
=========== ================================================ ==========================================

From 2.13 on ``bmm`` of columns by rows is a kernel of Triton's and takes none
(torch/_native/ops/bmm_outer_product/triton_impl.py; 2.12 came without it: pytorch/pytorch#181658).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import torch

from ...kernels.cublas import cublas_workspace_bytes
from ...tracking.record import Phase, Record
from ...tracking.tracker import Tracker
from ...units import KIB

aten = torch.ops.aten

#: Operators that take a cuBLAS handle (every path to getCurrentCUDABlasHandle, 2.13).
_CUBLAS = frozenset({
    aten.mm.default, aten.mm.out, aten.addmm.default, aten.addmm_.default, aten.addmm.out,
    aten._addmm_activation.default, aten.bmm.default, aten.bmm.out, aten.baddbmm.default,
    aten.baddbmm_.default, aten.mv.default, aten.addmv.default, aten.addmv_.default, aten.dot.default,
    aten.vdot.default, aten.addbmm.default, aten._scaled_mm.default,
})  # fmt: skip
#: ``int8_gemm`` gives cuBLASLt no workspace. It asks for the handle only: that comes with one until 2.11.
_INTEGERS = aten._int_mm.default
_DOTS = frozenset({aten.dot.default, aten.vdot.default})
_BIASED = frozenset({aten.addmm.default, aten.addmm.out, aten._addmm_activation.default})

#: CUBLASLT_WORKSPACE_SIZE's default, in KiB.
_LT_KIB = 1024


class Workspaces:
    """The workspaces that a test has taken so far."""

    def __init__(
        self, capability: tuple[int, int] = (9, 0), torch_version: tuple[int, int] = (2, 13)
    ) -> None:
        self.capability = capability
        self.torch_version = torch_version
        self._kept: dict[tuple[str, str, int], Record] = {}

    def serve(self, tracker: Tracker, func: Any, name: str, args: Sequence[Any]) -> None:
        """Take what the kernel of ``func`` takes, its output being there already."""
        if func not in _CUBLAS and not (func is _INTEGERS and self.torch_version <= (2, 11)):
            return
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        if first.device.type != "cuda":
            return
        products = _products(func, args)
        if not products or (self.torch_version >= (2, 13) and _is_outer_product(func, args)):
            return
        by_lt = func is aten._scaled_mm.default or (func in _BIASED and takes_lt(*args[:3]))
        if self.torch_version >= (2, 15):
            size_bytes = self._lt_bytes() if by_lt else self._bytes()
            for _ in range(products):
                tracker.release(tracker.transient(size_bytes, name))
            return
        thread, stream = _thread(tracker.phase), tracker.streams.current()
        self._keep(tracker, (thread, "cublas", stream), self._bytes(), name)
        if by_lt and self.torch_version <= (2, 11):
            self._keep(tracker, (thread, "cublaslt", stream), self._lt_bytes(), name)

    def clear(self, tracker: Tracker) -> None:
        """Free what is kept, of all threads (``clearCublasWorkspaces`` in CublasHandlePool.cpp)."""
        while self._kept:
            tracker.release(self._kept.popitem()[1])

    def _keep(self, tracker: Tracker, key: tuple[str, str, int], size_bytes: int, name: str) -> None:
        if key not in self._kept:
            self._kept[key] = tracker.transient(size_bytes, name)

    def _bytes(self) -> int:
        config = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        return cublas_workspace_bytes(self.capability, self.torch_version, config)

    @staticmethod
    def _lt_bytes() -> int:
        return int(os.environ.get("CUBLASLT_WORKSPACE_SIZE", _LT_KIB)) * KIB


def _products(func: Any, args: Sequence[Any]) -> int:
    """How many products the kernel asks cuBLAS for: none of no elements, which it fills in itself.

    Of a sum over a batch each matrix is one (``addbmm_impl_`` in aten/src/ATen/native/LinearAlgebra.cpp);
    a dot product is asked for in any case (``dot_cuda`` in aten/src/ATen/native/cuda/Blas.cpp).
    """
    if func in _DOTS:
        return 1
    factors = [tensor for tensor in args[:3] if isinstance(tensor, torch.Tensor)][-2:]
    if any(tensor.numel() == 0 for tensor in factors):
        return 0
    return int(factors[0].shape[0]) if func is aten.addbmm.default else 1


def _is_outer_product(func: Any, args: Sequence[Any]) -> bool:
    """Whether ``bmm_outer_product`` takes it (``_is_outer_product`` there); ``out=`` stays with cuBLAS."""
    return func is aten.bmm.default and args[0].shape[2] == 1 and not args[0].is_complex()


def takes_lt(bias: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether ``addmm(bias, first, second)`` goes to cuBLASLt (isInputCompliesAddmmCudaLt, 2.13)."""
    is_row = bias.dim() == 1 and bias.is_contiguous() and bias.shape[0] == second.shape[1]
    types = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    return is_row and second.shape[0] > 1 and second.shape[1] > 1 and second.dtype in types


def _thread(phase: Phase) -> str:
    """Backward runs on a thread of the engine's own, and a handle belongs to a thread.

    A thread that has ended leaves its handle to a later one, as the system does its number.
    """
    if phase in (Phase.BACKWARD, Phase.RECOMPUTE) or torch._C._current_graph_task_id() != -1:
        return "backward"
    return str(threading.get_ident())
