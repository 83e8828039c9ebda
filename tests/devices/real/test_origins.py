"""Operator and line of an allocation, from its stack."""

import sys

import pytest

from pytest_membudget.devices.real.origins import Origins, operator_name
from tests.tracking.stacks import frame

ALLOCATOR = frame("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)")
TENSOR = frame("at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)")
ADD = frame("at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&, c10::Scalar const&)")
LIBRARY = frame("at::cuda::blas::gemm_internal_cublaslt(long)")
USER = frame("step", "/project/train.py", 7)


def line_of_user(frames):
    return next(((one["filename"], one["line"]) for one in frames if one["filename"].endswith(".py")), None)


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("aten::empty_memory_format", "aten::empty.memory_format"),
        ("aten::add_Tensor", "aten::add.Tensor"),
        ("aten::_foreach_add_List", "aten::_foreach_add.List"),
        ("aten::mm", "aten::mm"),
        ("aten::_log_softmax_backward_data", "aten::_log_softmax_backward_data"),
        ("somebodys::kernel_of_theirs", "somebodys::kernel_of_theirs"),
        ("", ""),
    ],
)
def test_the_name_is_the_dispatchers(called, name):
    """As aten/src/ATen/native/native_functions.yaml (2.13) has them: an overload stands behind a dot."""
    assert operator_name(called) == name


def test_an_operators_allocation_has_its_name_and_the_users_line():
    origin = Origins(line_of_user).of([ALLOCATOR, TENSOR, ADD, USER])

    assert (origin.operator, origin.line) == ("aten::add.Tensor", ("/project/train.py", 7))
    assert not origin.is_workspace
    assert not origin.makes_new_values


def test_the_caller_is_the_users_line_around_the_outermost_module():
    block, step = frame("forward", "/project/model.py", 3), frame("train", "/project/train.py", 9)
    call = frame("_call_impl", "/lib/torch/nn/modules/module.py", 1700)
    origins = Origins(line_of_user, line_of_user)
    inner = [ALLOCATOR, TENSOR, ADD, block, call, frame("forward", "/project/model.py", 30), call]

    found = [
        origins.of([*inner, step, USER]),
        origins.of([ALLOCATOR, TENSOR, ADD, step, USER]),
        origins.of(inner),
    ]
    assert [(one.line[1], one.caller) for one in found] == [
        (3, ("/project/train.py", 9)), (9, None), (3, None)
    ]  # fmt: skip


def test_a_librarys_is_a_workspace_and_a_factorys_are_new_values():
    origins = Origins(line_of_user)

    assert origins.of([ALLOCATOR, LIBRARY, ADD, USER]).is_workspace
    assert origins.of([ALLOCATOR, TENSOR, frame("at::_ops::randn::call"), USER]).makes_new_values


def test_a_copy_to_the_card_makes_new_values_and_a_cast_on_it_does_not():
    """What ``host.cuda()`` and ``logits.float()`` call (torch 2.15): only the one names a device."""
    origins = Origins(line_of_user)
    copy = frame("at::_ops::_to_copy::call(at::Tensor const&)")
    moved = frame("at::_ops::to_dtype_layout::call(at::Tensor const&)")
    cast = frame("at::_ops::to_dtype::call(at::Tensor const&, c10::ScalarType)")

    assert origins.of([ALLOCATOR, TENSOR, copy, moved, USER]).makes_new_values
    assert not origins.of([ALLOCATOR, TENSOR, copy, cast, USER]).makes_new_values


def test_a_stack_without_frames_is_backwards():
    origin = Origins(line_of_user).of(())

    assert (origin.operator, origin.line, origin.is_workspace) == ("backward", None, False)


def test_what_a_kernel_needs_to_be_tuned_is_its_own(tmp_path):
    """Frames as of inductor's runtime/triton_heuristics.py, 2.13: a buffer to clear the cache, copies."""
    (tmp_path / "tr").mkdir()
    code = tmp_path / "tr" / f"ctr{'a' * 49}.py"
    code.write_text("triton_poi_fused_silu_0.run(buf0, 8, stream=raw_stream0)\n")
    empty = frame("at::_ops::empty_memory_format::call(long)")
    tuned = [frame("benchmark_gpu"), frame("autotune_to_one_config"), frame("call", str(code), 1)]

    origins = Origins(line_of_user)

    assert origins.of([ALLOCATOR, TENSOR, empty, *tuned]).operator == "tuning of triton_poi_fused_silu_0"
    assert origins.of([ALLOCATOR, TENSOR, empty, *tuned[1:2]]).operator == "tuning of a kernel"


def test_a_stack_is_found_again_without_events_for_audit_hooks():
    """A history has a million frames, and Python calls each hook for each ``id`` (``builtins.id``)."""
    origins = Origins(line_of_user)
    stack = [ALLOCATOR, TENSOR, ADD, USER]
    first = origins.of(stack)
    events = []
    listening = [events]
    sys.addaudithook(lambda event, args: listening and listening[0].append(event))
    try:
        found = origins.of([*stack])
    finally:
        listening.clear()

    assert found is first
    assert events == []


def test_a_stack_is_looked_at_once():
    looked = []

    def line(frames):
        looked.append(frames)
        return line_of_user(frames)

    origins = Origins(line)
    shared = [ALLOCATOR, TENSOR, ADD, USER]
    found = [origins.of(list(shared)) for _ in range(3)]
    other = origins.of([ALLOCATOR, TENSOR, ADD, frame("step", "/project/train.py", 9)])

    assert len(looked) == 2
    assert [one.line for one in found] == [("/project/train.py", 7)] * 3
    assert other.line == ("/project/train.py", 9)
