"""What an allocation's stack tells."""

from pytest_membudget.devices.real.asked_by import Stacks


def frame(name, filename="??", line=0):
    return {"name": name, "filename": filename, "line": line}


ALLOCATOR = frame("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)")
TENSOR = frame("at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)")
ADD = frame("at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&, c10::Scalar const&)")
LIBRARY = frame("at::cuda::blas::gemm_internal_cublaslt(long)")
USER = frame("step", "/project/train.py", 7)


def line_of_user(frames):
    return next(((one["filename"], one["line"]) for one in frames if one["filename"].endswith(".py")), None)


def test_an_operators_allocation_has_its_name_and_the_users_line():
    asked = Stacks(line_of_user).asked_by([ALLOCATOR, TENSOR, ADD, USER])

    assert (asked.operator, asked.line) == ("aten::add.Tensor", ("/project/train.py", 7))
    assert not asked.is_workspace
    assert not asked.makes_new_values


def test_a_librarys_is_a_workspace_and_a_factorys_are_new_values():
    stacks = Stacks(line_of_user)

    assert stacks.asked_by([ALLOCATOR, LIBRARY, ADD, USER]).is_workspace
    assert stacks.asked_by([ALLOCATOR, TENSOR, frame("at::_ops::randn::call"), USER]).makes_new_values


def test_a_copy_to_the_card_makes_new_values_and_a_cast_on_it_does_not():
    """What ``host.cuda()`` and ``logits.float()`` call (torch 2.15): only the one names a device."""
    stacks = Stacks(line_of_user)
    copy = frame("at::_ops::_to_copy::call(at::Tensor const&)")
    moved = frame("at::_ops::to_dtype_layout::call(at::Tensor const&)")
    cast = frame("at::_ops::to_dtype::call(at::Tensor const&, c10::ScalarType)")

    assert stacks.asked_by([ALLOCATOR, TENSOR, copy, moved, USER]).makes_new_values
    assert not stacks.asked_by([ALLOCATOR, TENSOR, copy, cast, USER]).makes_new_values


def test_a_stack_without_frames_is_backwards():
    asked = Stacks(line_of_user).asked_by(())

    assert (asked.operator, asked.line, asked.is_workspace) == ("backward", None, False)


def test_a_stack_is_looked_at_once():
    looked = []

    def line(frames):
        looked.append(frames)
        return line_of_user(frames)

    stacks = Stacks(line)
    shared = [ALLOCATOR, TENSOR, ADD, USER]
    found = [stacks.asked_by(list(shared)) for _ in range(3)]
    other = stacks.asked_by([ALLOCATOR, TENSOR, ADD, frame("step", "/project/train.py", 9)])

    assert len(looked) == 2
    assert [one.line for one in found] == [("/project/train.py", 7)] * 3
    assert other.line == ("/project/train.py", 9)
