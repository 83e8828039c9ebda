"""PyTorch's CUDA kernels are called as without values followed, and nothing stale is known."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def types_with_numbers():
    half = torch.ones(2, dtype=torch.float16, device="cuda")
    scalar = torch.ones((), dtype=torch.int8, device="cuda")
    made = [half * 2.5, 2.5 * half, half + True, scalar * 2, scalar * 2.0, 1 - scalar]
    made.append(torch.where(half > 0, half, 2.0))
    return [str(tensor.dtype) for tensor in made]


def test_a_python_number_decides_no_type(trace):
    """Type promotion as torch.result_type has it: of a number's kind only where no tensor is of it."""
    assert trace(types_with_numbers).value == [
        "torch.float16", "torch.float16", "torch.float16", "torch.int8", "torch.float32", "torch.int8",
        "torch.float16",
    ]  # fmt: skip


def numbers_beside_whole_numbers():
    positions = torch.arange(6, device="cuda")
    return [
        (positions % 4).tolist(),
        (positions & 1).tolist(),
        (7 - positions).tolist(),
        (positions // 4).tolist(),
    ]


def test_operators_between_a_tensor_and_a_number_are_computed(trace):
    traced = trace(numbers_beside_whole_numbers)

    assert traced.value == [[0, 1, 2, 3, 0, 1], [0, 1, 0, 1, 0, 1], [7, 6, 5, 4, 3, 2], [0, 0, 0, 0, 1, 1]]
    assert traced.report.assumptions == ()


def places_of_trues():
    mask = torch.randn(8, 50, device="cuda") > 0
    return list(torch.nonzero(mask, out=torch.empty(0, dtype=torch.long, device="cuda")).shape)


def test_places_that_are_written_to_a_given_tensor_are_as_many(trace):
    traced = trace(places_of_trues)

    assert traced.value == [400, 2]
    assert "true everywhere, the worst case" in traced.report.assumptions[0]


def written_inside_a_kernel():
    weight = torch.zeros(8, 4, device="cuda", requires_grad=True)
    ids = torch.tensor([1, 1], device="cuda")
    (torch.nn.functional.embedding(ids, weight) * torch.randn(2, 4, device="cuda")).sum().backward()
    return weight.grad.sum().item()


def test_zeros_that_a_kernel_writes_to_are_not_known(trace):
    """``embedding_dense_backward`` makes zeros and adds unknown gradients to them: nobody knows the sum."""
    traced = trace(written_inside_a_kernel)

    assert traced.value == 1.0
    assert len(traced.report.assumptions) == 1


def memory_used_again(how):
    seen = []
    for _ in range(2):
        x = torch.full((4,), 7, device="cuda")
        address = x.data_ptr()
        del x
        y = {
            "empty": lambda: torch.empty(4, dtype=torch.long, device="cuda"),
            "empty_like": lambda: torch.empty_like(torch.zeros(4, dtype=torch.long), device="cuda"),
            "operator": lambda: torch.randn(4, device="cuda").long(),
            "new_empty": lambda: torch.ones(1, dtype=torch.long, device="cuda").new_empty(4),
        }[how]()
        seen.append(y[0].item())
        del y
    return [seen, address > 0]


@pytest.mark.parametrize("how", ["empty", "empty_like", "operator", "new_empty"])
def test_what_was_known_of_freed_memory_is_forgotten(trace, how):
    traced = trace(memory_used_again, how)

    assert traced.value == [[1, 1], True]
    assert len(traced.report.assumptions) == 1


def numbers_looked_for(number, dtype):
    boundaries = torch.arange(1000, dtype=getattr(torch, dtype), device="cuda")
    peaks = []
    for search in (
        lambda: torch.searchsorted(boundaries, number),
        lambda: torch.bucketize(number, boundaries),
        lambda: torch.searchsorted(boundaries, number, out=torch.empty((), dtype=torch.long, device="cuda")),
    ):
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        torch.cuda.reset_peak_memory_stats()
        search()
        peaks.append(torch.cuda.memory_stats()["requested_bytes.all.peak"] - before)
    return peaks


@pytest.mark.parametrize(
    ("number", "dtype", "casts_bytes"),
    [
        pytest.param(2.5, "float64", 0, id="of the boundaries' type"),
        pytest.param(2.5, "float32", 4, id="the number is cast"),
        pytest.param(2, "float16", 2, id="a whole number"),
        # an int64 tensor and a number with a fraction: torch.result_type is float32
        pytest.param(2.5, "int64", 4 + 4 * 1000, id="both are cast"),
    ],
)
def test_a_number_among_boundaries_is_a_tensor_of_its_own_and_is_cast_to_their_common_type(
    trace, number, dtype, casts_bytes
):
    """8 bytes of the number, 8 of its position: native/BucketizationUtils.h (2.15)."""
    assert trace(numbers_looked_for, number, dtype).value == [16 + casts_bytes] * 3


def gradients_of_known_numbers():
    ones = torch.ones(2, 4, 8, device="cuda", requires_grad=True)
    weight = torch.ones(3, 4, 2, device="cuda", requires_grad=True)
    torch.nn.functional.conv1d(ones, weight).sum().backward()
    of_the_convolution = [ones.grad[0, 0, 1].item(), weight.grad[0, 0, 0].item()]
    torch.nn.functional.layer_norm(ones, [8]).sum().backward()
    sign = torch.ones(3, device="cuda", requires_grad=True)
    torch.sgn(sign).sum().backward()
    return [*of_the_convolution, ones.grad[0, 0, 1].item(), sign.grad.tolist()]


def test_a_backward_that_gives_no_gradient_or_zeros_without_memory_is_followed(trace):
    """No bias, no affine parameters; ``sgn_backward`` gives autograd's efficient zeros.

    Each inner input is seen by 2 positions of 3 channels; a weight by 7 positions of 2 samples.
    """
    assert trace(gradients_of_known_numbers).value == [6.0, 14.0, 6.0, [0.0, 0.0, 0.0]]


def inside_fake_tensors():
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(4, device="cuda"))
        return [type(fake + 1).__name__, str((fake * 2).device), list(torch.arange(3, device="cuda").shape)]


def test_fake_tensors_never_come_here(trace):
    assert trace(inside_fake_tensors).value == ["FakeTensor", "cuda:0", [3]]


def in_inference_mode():
    with torch.inference_mode():
        x = torch.arange(4, device="cuda")
        x += 1
        return [x.tolist(), x[x > 2].tolist(), (x * 2.0).tolist()]


def test_values_are_followed_in_inference_mode(trace):
    assert trace(in_inference_mode).value == [[1, 2, 3, 4], [3, 4], [2.0, 4.0, 6.0, 8.0]]


def under_a_default_device():
    with torch.device("cuda"):
        x = torch.arange(4)
        return [x.tolist(), (x > 1).nonzero().tolist(), torch.ones(3).sum().item()]


def test_a_default_device_changes_nothing(trace):
    traced = trace(under_a_default_device)

    assert traced.value == [[0, 1, 2, 3], [[2], [3]], 3.0]
    assert not traced.report.assumptions


def printed():
    shown = repr(torch.randn(2, 3, device="cuda"))
    torch.full(
        (2**16,), 3, dtype=torch.int32, device="cuda"
    )  # what a kernel that computes nothing then finds in its memory
    texts = [str(torch.arange(3, device="cuda")), str(torch.tensor([1.5, 20.0], device="cuda"))]
    return [*texts, shown.count("[") + shown.count(",")]


def test_printing_is_no_read(trace):
    traced = trace(printed)

    assert traced.value == [
        "tensor([0, 1, 2], device='cuda:0')", "tensor([ 1.5000, 20.0000], device='cuda:0')", 3 + 6
    ]  # fmt: skip
    assert not traced.report.assumptions


def of_a_sparse_tensor():
    x = torch.sparse_coo_tensor(torch.zeros(2, 3, dtype=torch.long), torch.ones(3), (4, 4)).cuda()
    return [list((x + x).shape), list(x.to_dense().shape), list(torch.eye(4).to_sparse().cuda().shape)]


def test_sparse_tensors_run(trace):
    assert trace(of_a_sparse_tensor).value == [[4, 4], [4, 4], [4, 4]]
