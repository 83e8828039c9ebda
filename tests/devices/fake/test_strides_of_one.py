"""Views and sums have the strides that PyTorch gives them, those of dimensions of size one among them."""

import pytest
import torch

from pytest_membudget.devices.fake.strides_of_one import strides_of, view_of

CASES = [
    # shape, the order its dimensions lie in memory, shape of the view
    ((1, 256, 8), (0, 1, 2), (1, 8, 16, 16)),
    ((1, 256, 8), (1, 2, 0), (1, -1, 16, 16)),
    ((2, 256, 8), (0, 1, 2), (2, 8, 16, 16)),
    ((1, 4, 6), (2, 0, 1), (4, 1, 6, 1)),
    ((3, 1, 4), (1, 0, 2), (3, 2, 2, 1)),
    ((1, 0, 4), (2, 1, 0), (4, 1, 0)),
]


def strides(shape, order, viewed):
    memory = torch.empty([shape[dim] for dim in order], device="cuda")
    tensor = memory.permute([order.index(dim) for dim in range(len(order))]).transpose(-1, -2)
    ways = (lambda: tensor.view(viewed), lambda: tensor.reshape(viewed), lambda: tensor.flatten(-1)[None])
    with torch.inference_mode():
        flat = tensor.reshape(viewed).stride()
    return [*(list(way().stride()) for way in ways), list(flat), tensor.view(viewed).storage_offset()]


@pytest.mark.parametrize("case", CASES)
def test_a_view_has_the_strides_of_a_real_one(trace, case, monkeypatch):
    made = trace(strides, *case).value
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda sizes, device: empty(sizes))

    assert made == strides(*case)


def after_attention():
    rows = torch.ones(1, 256, 8, device="cuda")
    image = torch.ones(1, 8, 16, 16, device="cuda")
    total = rows.transpose(1, 2).reshape(1, 8, 16, 16) + image
    results = [total, total / 1.0, 2 * total, total - 0.5, total * rows[:, :8, :1, None], total + total]
    return [list(result.stride()) for result in results]


def test_one_image_after_attention_does_not_lie_channels_last(trace, monkeypatch):
    """PyTorch's convolutions copy it, as diffusers' autoencoders show (diffusers 0.42.1, resnet.py)."""
    strides = trace(after_attention).value

    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *sizes, device: ones(sizes))
    assert strides == after_attention()
    assert strides[:2] == [[8, 1, 128, 8]] * 2


def test_what_fake_tensors_give_equally_is_left_to_them():
    tensor = torch.empty(1, 256, 8, device="meta")

    assert view_of(tensor, [1, 8, 256]) is None
    assert view_of(tensor.transpose(1, 2), [8, 256]) is None
    image = torch.empty(1, 8, 16, 16, device="meta").to(memory_format=torch.channels_last)
    assert strides_of(torch.ops.aten.add.Tensor, (image, 1.0), {}, image) is None


def no_view():
    torch.ones(1, 4, 6, device="cuda").transpose(1, 2).view(1, 24)


def test_what_is_no_view_fails_with_torch_s_own_words(trace):
    with pytest.raises(AssertionError, match="view size is not compatible"):
        trace(no_view)
