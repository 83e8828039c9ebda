"""cuBLAS workspaces as a trace takes them (CublasHandlePool.cpp, CUDABlas.cpp, Blas.cpp)."""

import pytest
import torch

from pytest_membudget.allocator.caching import CachingAllocator
from pytest_membudget.devices.fake.charges import on_cuda
from pytest_membudget.devices.fake.workspaces import Workspaces, takes_lt
from pytest_membudget.tracking.ledger import Ledger
from pytest_membudget.tracking.running_code.source import SourceFinder
from pytest_membudget.tracking.tracker import Tracker

MIB = 2**20
SMALL, LARGE = 8_519_680, 33_554_432
RELEASES = [(2, 11), (2, 12), (2, 13), (2, 14), (2, 15)]


@pytest.mark.parametrize(
    ("bias", "first", "second", "dtype", "lt"),
    [
        ((8,), (4, 6), (6, 8), torch.float32, True),
        ((8,), (4, 6), (6, 8), torch.bfloat16, True),
        ((4, 8), (4, 6), (6, 8), torch.float32, False),  # no row
        ((1,), (4, 6), (6, 8), torch.float32, False),  # broadcast
        ((8,), (4, 1), (1, 8), torch.float32, False),
        ((1,), (4, 6), (6, 1), torch.float32, False),
        ((8,), (4, 6), (6, 8), torch.int64, False),
    ],
)
def test_which_products_with_a_bias_go_to_cublas_lt(bias, first, second, dtype, lt):
    tensors = [torch.empty(shape, dtype=dtype, device="meta") for shape in (bias, first, second)]

    assert takes_lt(*tensors) is lt


def test_a_bias_with_gaps_does_not_go_to_cublas_lt():
    bias = torch.empty(16, device="meta")[::2]

    assert not takes_lt(bias, torch.empty(4, 6, device="meta"), torch.empty(6, 8, device="meta"))


def served(release, operators):
    """(allocated, peak) of the workspaces alone after each operator, for an A100."""
    tracker = Tracker(Ledger(CachingAllocator()), SourceFinder([], "/nowhere"), on_cuda)
    workspaces = Workspaces(capability=(8, 0), torch_version=tuple(release))
    x, bias = torch.empty(4, 4, device="cuda"), torch.empty(4, device="cuda")
    calls = {
        "mm": (torch.ops.aten.mm.default, (x, x)),
        "addmm": (torch.ops.aten.addmm.default, (bias, x, x)),
        "addmm into": (torch.ops.aten.addmm.out, (bias, x, x)),
        "mm on the host": (torch.ops.aten.mm.default, (x.cpu(), x.cpu())),
        "add": (torch.ops.aten.add.Tensor, (x, x)),
        "mm of nothing": (torch.ops.aten.mm.default, (x[:0], x)),
        "bmm over nothing": (torch.ops.aten.bmm.default, (x.view(2, 8, 1)[:, :, :0], x.view(2, 1, 8)[:, :0])),
        "outer": (torch.ops.aten.bmm.default, (x.view(2, 8, 1), x.view(2, 1, 8))),
        "outer of complex": (torch.ops.aten.bmm.default, (x.view(2, 8, 1) * 1j, x.view(2, 1, 8) * 1j)),
        "outer into": (torch.ops.aten.bmm.out, (x.view(2, 8, 1), x.view(2, 1, 8))),
        "dot of nothing": (torch.ops.aten.dot.default, (bias[:0], bias[:0])),
        "integers": (torch.ops.aten._int_mm.default, (x.to(torch.int8), x.to(torch.int8))),
    }
    seen = []
    for name in operators:
        operator, args = calls[name]
        workspaces.serve(tracker, operator, name, args)
        seen.append([tracker.ledger.allocator.allocated_bytes, tracker.ledger.allocator.peak_allocated_bytes])
    return seen


@pytest.mark.parametrize(
    ("release", "sizes"),
    [
        # cuBLASLt: a workspace of its own, 1 MiB, kept beside the other
        ((2, 11), [[SMALL, SMALL], [SMALL, SMALL], [SMALL + MIB, SMALL + MIB], [SMALL + MIB, SMALL + MIB]]),
        # shared with cuBLAS's
        ((2, 12), [[SMALL, SMALL]] * 4),
        ((2, 14), [[SMALL, SMALL]] * 4),
        # given back at once
        ((2, 15), [[0, SMALL]] * 4),
    ],
)
def test_workspaces_are_kept_or_given_back_by_release(trace, release, sizes):
    assert trace(served, release, ["mm", "mm", "addmm", "add"]).value == sizes


@pytest.mark.parametrize("operator", ["addmm", "addmm into"])
@pytest.mark.parametrize(("release", "peak"), [((2, 11), SMALL + MIB), ((2, 13), SMALL), ((2, 15), MIB)])
def test_a_biased_product_alone_takes_what_its_release_gives_cublas_lt(trace, release, peak, operator):
    """Compiled code hands the result in; both are ``addmm_out_cuda_impl`` (ATen/native/cuda/Blas.cpp)."""
    assert trace(served, release, [operator]).value[0][1] == peak


@pytest.mark.parametrize(("release", "peak"), [((2, 11), SMALL), ((2, 13), 0), ((2, 15), 0)])
def test_a_product_of_integers_is_given_none(trace, release, peak):
    """``int8_gemm`` hands cuBLASLt none; until 2.11 the handle that it asks for comes with one.

    Whether ``getCurrentCUDABlasLtHandle`` sets the handle up was read in libtorch_cuda's code in the wheels:
    it jumps to ``getCurrentCUDABlasHandle()`` in 2.11.0, and with ``setup=false`` in 2.13.0 and 2.15.0.
    """
    assert trace(served, release, ["integers"]).value[0][1] == peak


def test_nothing_is_taken_for_other_operators_or_on_the_host(trace):
    assert trace(served, (2, 13), ["add", "mm on the host"]).value == [[0, 0], [0, 0]]


@pytest.mark.parametrize("release", [(2, 13), (2, 15)])
def test_a_product_of_no_elements_does_not_reach_cublas(trace, release):
    """``addmm_out_cuda_impl``, ``bmm_out_cuda_impl`` (ATen/native/cuda/Blas.cpp) fill the result."""
    assert trace(served, release, ["mm of nothing", "bmm over nothing"]).value == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("release", "operator", "peak"),
    [
        ((2, 12), "outer", SMALL),
        ((2, 13), "outer", 0),
        ((2, 13), "outer of complex", SMALL),
        ((2, 13), "outer into", SMALL),
        ((2, 15), "outer", 0),
    ],
)
def test_columns_by_rows_are_a_kernel_of_triton_s_since_2_13(trace, release, operator, peak):
    """torch/_native/ops/bmm_outer_product/triton_impl.py overrides ``aten::bmm`` alone."""
    assert trace(served, release, [operator]).value[0][1] == peak


def test_a_dot_product_reaches_cublas_whatever_its_size(trace):
    assert trace(served, (2, 15), ["dot of nothing"]).value == [[0, SMALL]]


def test_a_matrix_that_is_copied_for_cublas_is_held_with_the_workspace(trace):
    """An expanded gradient (``prepare_matrix_for_cublas``): inputs, result, copy and workspace."""
    traced = trace(expanded_product, workspaces_of=(2, 15))

    assert traced.allocated == 512 + 3 * 4 * MIB + SMALL


def expanded_product():
    one, matrix = torch.empty((), device="cuda"), torch.empty(1024, 1024, device="cuda")
    one.expand(1024, 1024) @ matrix


@pytest.mark.parametrize(("kib", "size"), [(0, 0), (2048, 2 * MIB)])
def test_the_size_of_cublas_lts_can_be_set(trace, kib, size):
    traced = trace(served, (2, 15), ["addmm"], environ={"CUBLASLT_WORKSPACE_SIZE": str(kib)})

    assert traced.value[0][1] == size


def products(grad):
    weight = torch.randn(512, 512, device="cuda", requires_grad=grad)
    for _ in range(2):
        loss = (torch.randn(2, 512, device="cuda") @ weight).sum()
        if grad:
            loss.backward()


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15), reason="given back at each operator's end"
)
@pytest.mark.parametrize(("grad", "handles"), [(False, 1), (True, 2)])
def test_a_handle_belongs_to_a_thread_and_backward_has_one_of_its_own(trace, grad, handles):
    assert trace(products, grad).workspaces // SMALL == handles  # a reduction's few bytes beside them


def test_a_setting_in_the_environment_counts(trace):
    traced = trace(served, (2, 13), ["mm"], environ={"CUBLAS_WORKSPACE_CONFIG": ":16:8"})

    assert traced.value == [[128 * 1024, 128 * 1024]]


def test_another_card_has_another_workspace(trace):
    assert trace(products, False, gpu="H100-80GB").report.peak.allocated_bytes >= LARGE
