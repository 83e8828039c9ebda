"""torch.linalg on the stand-in: what ATen allocates, and the workspaces whose size nobody knows."""

import ctypes

import pytest
import torch
from allocations import not_modelled, peak_of

from pytest_membudget.devices.torch_parts import torch_release

N = 64
MATRIX = N * N * 4
#: One matrix's status, an int32.
INFO = 4
#: LAPACK's block of 32 columns, which stands in for a workspace that is not published (cusolver_sizes.c).
BLOCK_OF_COLUMNS = N * 32 * 4

#: What ``eigh`` asks.
IS_BATCHED = torch_release() >= (2, 13)
EIGH = "XsyevBatched" if IS_BATCHED else "Ssyevj"
#: Each forward alone: what ATen allocates at its peak (BatchLinearAlgebra.cpp, BatchLinearAlgebraLib.cpp,
#: torch 2.15), and the sizes that it asks cuSOLVER for.
FORWARD = {
    # the factor, its status, the workspace
    "cholesky": (MATRIX + INFO + BLOCK_OF_COLUMNS, ["cusolverDnXpotrf_bufferSize"]),
    # the factors, the pivots (int32), the status, the workspace
    "lu_factor": (MATRIX + N * 4 + INFO + BLOCK_OF_COLUMNS, ["cusolverDnSgetrf_bufferSize"]),
    # Q and the matrix that becomes R, tau, a status, the workspace of one of two steps
    "qr": (
        2 * MATRIX + N * 4 + INFO + BLOCK_OF_COLUMNS,
        ["cusolverDnSorgqr_bufferSize", "cusolverDnXgeqrf_bufferSize"],
    ),
    # the eigenvectors, the eigenvalues, the status, LAPACK's xSYEVD: 1 + 6n + 2n**2 elements; before 2.13 a
    # matrix, and n elements
    "eigh": (
        MATRIX + N * 4 + INFO + (1 + 6 * N + 2 * N**2 if IS_BATCHED else N**2 + N) * 4,
        [f"cusolverDn{EIGH}_bufferSize"],
    ),
    # U, V, the singular values, a copy of the input, the status, LAPACK's xGESVJ: m + n elements
    "svd": (3 * MATRIX + N * 4 + INFO + (N + N) * 4, ["cusolverDnSgesvdj_bufferSize"]),
}


def forward(name):
    x, kept = torch.zeros(N, N, device="cuda"), []
    peak_bytes = peak_of(lambda: kept.append(getattr(torch.linalg, name)(x)))
    return peak_bytes, not_modelled()


@pytest.mark.parametrize("name", FORWARD)
def test_a_factorization_takes_what_aten_allocates_and_the_workspace_that_stands_in(stand_in, name):
    expected_bytes, asked = FORWARD[name]

    peak_bytes, names = stand_in(forward, name, not_modelled=asked)

    assert names == asked
    assert peak_bytes == expected_bytes


#: Forward and backward.
BOTH = {
    "svd": lambda linalg, x: linalg.svd(x, full_matrices=False),
    "eigh": lambda linalg, x: linalg.eigh(x + x.mH),
    "qr": lambda linalg, x: linalg.qr(x),
    "cholesky": lambda linalg, x: linalg.cholesky(x @ x.mH),
    "inv": lambda linalg, x: linalg.inv(x),
    "solve": lambda linalg, x: linalg.solve(x, x),
    "lstsq": lambda linalg, x: linalg.lstsq(x, x).solution,
    "lu": lambda linalg, x: linalg.lu(x),
    "det": lambda linalg, x: linalg.det(x),
    "ldl_factor": lambda linalg, x: linalg.ldl_factor(x).LD.detach().requires_grad_() * x,
    "householder_product": lambda linalg, x: linalg.householder_product(x, x[..., 0]),
}


def both(names, count):
    found = []
    for name in names:
        x = torch.zeros(*([count] if count else []), N, N, device="cuda", requires_grad=True)
        results = BOTH[name](torch.linalg, x)
        results = results if isinstance(results, tuple) else (results,)
        sum(result.sum() for result in results if result.is_floating_point()).backward()
        assert x.grad.shape == x.shape
        found.append(len(not_modelled()))
    return found


def test_forward_and_backward_run_and_the_unknown_workspaces_are_named(stand_in):
    kinds = ("Sgetrf", "Sgesvdj", "Sorgqr", "Sormqr", "Ssytrf", "Xgeqrf", "Xpotrf", EIGH)
    every_size = [f"cusolverDn{kind}_bufferSize" for kind in kinds]

    assert stand_in(both, list(BOTH), 0, not_modelled=every_size)[0] > 0


def test_batches_are_factorized_by_cublas_and_magma_which_ask_for_no_workspace(stand_in):
    assert stand_in(both, ["cholesky", "inv", "solve", "lu", "det"], 4) == [0] * 5


def own_wishes():
    """cuSOLVER's own interface, as an extension would call it."""
    library = ctypes.CDLL(None)
    size = ctypes.c_int()
    ask = library.cusolverDnCheevjBatched_bufferSize
    sizes = []
    for n, count in ((4, 512), (4, 2_047_171), (2, 2_078_879)):
        ask(None, 1, 0, n, None, n, None, ctypes.byref(size), None, count)
        sizes.append(size.value)
    return sizes


def test_recorded_sizes_are_met(stand_in):
    sizes = stand_in(own_wishes, not_modelled=["cusolverDnCheevjBatched_bufferSize"])

    # cupy's issue 7261: 1,028, and 1,049 for each 4 x 4 matrix; 2,078,879 of 2 x 2 are the most under 2**31
    assert sizes[0] == 1_028 + 512 * 1_049
    assert sizes[1] == 2_147_483_407
    assert 2**31 - 1 - sizes[2] < 1_033
