"""The fast path of nn.Transformer in inference takes the lengths of sequences from a mask of the card."""

import pytest
import torch
from torch import nn

import pytest_membudget

ROWS, LENGTH, WIDTH = 4, 1024, 64


def encoded(padding, told):
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, batch_first=True, device="cuda")
    model = nn.TransformerEncoder(layer, 2).eval()
    batch = torch.randn(ROWS, LENGTH, WIDTH, device="cuda")
    mask = torch.randn(ROWS, LENGTH, device="cuda") > 0
    if padding is not None:
        mask = torch.arange(LENGTH, device="cuda").expand(ROWS, LENGTH) >= LENGTH - padding
    with torch.no_grad(), pytest_membudget.assume(true_fraction=told):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        shape = model(batch, src_key_padding_mask=mask).shape
    return [list(shape), torch.cuda.max_memory_allocated() - before]


@pytest.mark.parametrize("padding", [0, LENGTH // 2])
def test_padding_that_is_known_is_left_out(trace, padding):
    traced = trace(encoded, padding, 1.0)

    assert traced.value[0] == [ROWS, LENGTH, WIDTH]
    assert not traced.report.assumptions


@pytest.mark.parametrize(("told", "padding"), [(1.0, 0), (0.5, LENGTH // 2)])
def test_a_mask_that_nobody_knows_takes_as_much_as_one_that_says_so(trace, told, padding):
    traced = trace(encoded, None, told)

    assert traced.value == trace(encoded, padding, 1.0).value
    (line,) = traced.report.assumptions
    assert "takes sizes from unknown data with aten._nested_tensor_from_mask.default" in line


def test_half_of_the_tokens_take_less(trace):
    (_, all_bytes), (_, half_bytes) = (trace(encoded, padding, 1.0).value for padding in (0, LENGTH // 2))

    # at least the hidden 128 numbers of each token that is left out
    assert all_bytes - half_bytes >= ROWS * LENGTH // 2 * 128 * 4
