"""cuBLAS on the stand-in: products take no memory but PyTorch's, handles keep what they are told."""

import ctypes
import re
from pathlib import Path

import pytest
import torch
from allocations import not_modelled, peak_of

from pytest_membudget.devices.torch_parts import torch_release

#: PyTorch's workspace of a handle on an A100: ":4096:2:16:8" in KiB (CublasHandlePool.cpp, torch 2.15).
WORKSPACE_BYTES = (4096 * 2 + 16 * 8) * 1024
N = 64


def products():
    """The first product beyond what was there, and a linear with a bias, which runs in cuBLASLt."""
    a = torch.zeros(N, N, device="cuda")
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    kept = [a @ a]
    first = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    x = torch.zeros(N, N, device="cuda", dtype=torch.float16)
    return first, peak_of(lambda: kept.append(torch.nn.functional.linear(x, x, x[0])))


def test_products_take_their_result_and_the_workspace_of_the_handle(stand_in):
    """cuBLASLt's: 1,024 KiB on an A100 (aten/src/ATen/cuda/CUDABlas.cpp, _parseChosenWorkspaceSize).

    In 2.12 to 2.14 that is a part of cuBLAS's own workspace, which is kept (CUDABlas.cpp, 2.13).
    """
    is_shared = (2, 12) <= torch_release() < (2, 15)
    linear = N * N * 2 + (0 if is_shared else 1024 * 1024)
    assert stand_in(products) == [N * N * 4 + WORKSPACE_BYTES, linear]


#: Products with their backward: the families of cuBLAS and cuBLASLt that ATen calls.
PRODUCTS = {
    "mm": lambda x: x @ x,
    "bmm": lambda x: torch.bmm(x.expand(3, N, N), x.expand(3, N, N)),
    "mv": lambda x: torch.mv(x, x[0]),
    "dot": lambda x: torch.dot(x[0], x[1]),
    "linear": lambda x: torch.nn.functional.linear(x, x, x[0]),
    "addmm": lambda x: torch.addmm(x, x, x, alpha=0.5, beta=2),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(x, x, upper=True),
}


def product(names, dtype):
    for name in names:
        x = torch.zeros(N, N, device="cuda", dtype=getattr(torch, dtype), requires_grad=True)
        PRODUCTS[name](x).sum().abs().backward()
        assert list(x.grad.shape) == [N, N]
    return not_modelled()


@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16"])
def test_products_run_forward_and_backward(stand_in, dtype):
    """ATen has no triangular solve of bfloat16."""
    names = [name for name in PRODUCTS if (name, dtype) != ("solve_triangular", "bfloat16")]

    assert stand_in(product, names, dtype) == []


def versions():
    library = ctypes.CDLL(None)
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    parts = [ctypes.c_int() for _ in range(3)]
    for index, part in enumerate(parts):
        library.cublasGetProperty(index, ctypes.byref(part))
    loaded = re.findall(r"cublasLt\.so\.(\d+)", Path("/proc/self/maps").read_text())
    return library.cublasLtGetVersion(), [part.value for part in parts], sorted(set(loaded))


def test_the_version_is_of_the_major_that_torch_links(stand_in):
    """None of the real library is loaded: what is in its place is named by the same soname."""
    version, (major, minor, patch), loaded = stand_in(versions)

    assert version == major * 10000 + minor * 100 + patch
    assert loaded == [str(major)]


def handle_state():
    library = ctypes.CDLL(None)
    handles = [ctypes.c_void_p(), ctypes.c_void_p()]
    for handle in handles:
        library.cublasCreate_v2(ctypes.byref(handle))
    library.cublasSetPointerMode_v2(handles[0], 1)
    library.cublasSetMathMode(handles[1], 3)
    answers = []
    for handle in handles:
        pointer_mode, math_mode = ctypes.c_int(-1), ctypes.c_int(-1)
        library.cublasGetPointerMode_v2(handle, ctypes.byref(pointer_mode))
        library.cublasGetMathMode(handle, ctypes.byref(math_mode))
        answers.append((pointer_mode.value, math_mode.value))
        library.cublasDestroy_v2(handle)
    return answers


def test_settings_of_a_handle_are_kept_and_are_not_those_of_another(stand_in):
    assert stand_in(handle_state) == [[1, 0], [0, 3]]
