"""Where an allocation was asked for, from the frames that PyTorch records: Python's, and C++'s with them."""

import pytest

from pytest_membudget.tracking.places import function_of, is_workspace, node_of, operator_of
from tests.tracking.stacks import (
    ACCUMULATE,
    ALLOCATOR,
    BMM,
    ENGINE,
    LINEAR,
    NODE,
    PYTEST,
    USERS,
    WRITTEN,
    frame,
)

EMPTY = frame("at::_ops::empty_strided::redispatch(c10::DispatchKeySet)")
EINSUM = frame("at::_ops::einsum::call(std::string_view)")
#: PyTorch's own kernels may be called from Python: torch/_native/registry.py, 2.13
ROUTER = frame("eager_router", "/venv/lib/python3.12/site-packages/torch/_native/registry.py", 925)
OURS = frame(
    "run", "/venv/lib/python3.12/site-packages/pytest_membudget/devices/stand_in/values/kernels.py", 9
)


@pytest.mark.parametrize(
    ("frames", "node"),
    [
        ([ALLOCATOR, BMM, LINEAR, USERS, PYTEST], ""),
        ([BMM, USERS, frame("apply", "/x/torch/utils/checkpoint.py", 3), NODE], ""),
        ([ALLOCATOR, BMM, NODE, ENGINE], "BmmBackward0"),
        ([ALLOCATOR, BMM, ACCUMULATE, ENGINE], "AccumulateGrad"),
        # a backward that runs on the calling thread: the call of it is below the node
        ([BMM, NODE, USERS], "BmmBackward0"),
        ([], ""),
        ([ALLOCATOR, ENGINE], ""),
    ],
    ids=[
        *("forward", "recomputed", "a node", "a node of PyTorch", "the calling thread", "no frame"),
        "between nodes",
    ],
)
def test_the_node_is_that_of_a_backward_which_runs_no_line_of_the_users(frames, node):
    assert node_of(frames) == node


RESIZED = ["at::native::resize_bytes_cuda(c10::StorageImpl*)", "THPStorage_resize_(_object*)"]


@pytest.mark.parametrize(
    ("names", "function"),
    [
        (["at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)"], "at::detail::empty_generic"),
        (["void at::cuda::blas::gemm<float, std::vector<int> >(char)"], "at::cuda::blas::gemm"),
        (["at::native::(anonymous namespace)::baddbmm(at::Tensor const&)"], "at::native::baddbmm"),
        (RESIZED, "UntypedStorage.resize_"),
        ([], "backward"),
    ],
)
def test_without_an_operator_it_is_the_method_or_the_function_without_its_types(names, function):
    assert function_of([ALLOCATOR, *map(frame, names)] if names else []) == function


#: ``Tensor.cuda``
MOVED = [
    frame("at::_ops::_to_copy::call(at::Tensor const&)"),
    frame("at::_ops::to_dtype_layout::call(at::Tensor const&)"),
]


@pytest.mark.parametrize(
    ("frames", "operator"),
    [
        ([ALLOCATOR, BMM, EINSUM, USERS], "aten::bmm"),
        ([ALLOCATOR, EMPTY, BMM, EINSUM], "aten::bmm"),
        ([ALLOCATOR, EMPTY, USERS], "aten::empty_strided"),
        (
            [ALLOCATOR, EMPTY, frame("at::_ops::zeros_like::call(at::Tensor const&)"), USERS],
            "aten::zeros_like",
        ),
        ([ALLOCATOR, EMPTY, *MOVED, USERS], "aten::_to_copy"),
        ([ALLOCATOR, EMPTY, *MOVED, BMM, USERS], "aten::bmm"),
        ([ALLOCATOR, EMPTY, ROUTER, BMM, USERS], "aten::bmm"),
        ([ALLOCATOR, OURS, BMM, USERS], "aten::bmm"),
        ([USERS, BMM], ""),
        ([WRITTEN, USERS, BMM], ""),
        ([], ""),
    ],
    ids=[
        "innermost",
        "not the allocation",
        "only that",
        "filled",
        "moved",
        "moved for a product",
        "from PyTorch's Python",
        "from ours",
        "python only",
        "compiled",
        "none",
    ],
)
def test_the_operator_is_the_innermost_that_is_not_an_allocation(frames, operator):
    assert operator_of(frames) == operator


ALLOCATE = frame("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)")
GENERIC = frame(
    "at::TensorBase at::detail::_empty_strided_generic<c10::ArrayRef<long> >(c10::ArrayRef<long>)"
)
HANDLE = frame("at::cuda::getNewWorkspace()")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([ALLOCATOR, ALLOCATE, HANDLE, BMM, USERS], True),
        ([ALLOCATOR, ALLOCATE, GENERIC, BMM, USERS], False),
        ([USERS], False),
        ([], False),
    ],
    ids=["library", "tensor", "python only", "none"],
)
def test_memory_that_nobody_asked_for_as_a_tensor_is_a_workspace(frames, expected):
    """Stacks as PyTorch 2.6 recorded them for bmm, shortened."""
    assert is_workspace(frames) is expected
