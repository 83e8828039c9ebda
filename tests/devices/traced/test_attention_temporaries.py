"""What attention kernels hold beside their inputs and outputs; figures by hand from the sources' formulas."""

import pytest
import torch
from pytest_membudget.devices.fake.attention_calls import attention_call
from pytest_membudget.devices.fake.attention_temporaries import attention_temporaries, missing_on_cuda

from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.kernels.efficient_attention import workspace_bytes

aten = torch.ops.aten
A100 = find_gpu("A100-80GB")  # 108 multiprocessors
MIB = 2**20


def heads(batch=1, count=32, rows=2048, width=128, dtype=torch.bfloat16):
    return torch.empty(batch, rows, count, width, dtype=dtype, device="meta").transpose(1, 2)


def test_flash_backward_sums_query_gradients_in_fp32():
    """32 heads of 2,048 queries: a softmax sum a row, 128 numbers a row for the query's gradient."""
    args = (heads(), heads(), heads(), heads(), heads())

    sizes = attention_temporaries(aten._scaled_dot_product_flash_attention_backward.default, args, A100)

    assert sizes == [4 * 32 * 2048, 4 * 32 * 2048 * 128]


def test_flash_backward_expands_the_keys_of_grouped_queries():
    args = (heads(), heads(), heads(count=8), heads(count=8), heads())

    sizes = attention_temporaries(aten._scaled_dot_product_flash_attention_backward.default, args, A100)

    assert sizes[2:] == [2 * 2048 * 32 * 128] * 2


def test_flash_backward_copies_a_gradient_in_another_order():
    gradient = torch.empty(1, 32, 2048, 128, dtype=torch.bfloat16, device="meta")
    args = (gradient, heads(), heads(), heads(), heads())

    sizes = attention_temporaries(aten._scaled_dot_product_flash_attention_backward.default, args, A100)

    assert sizes[-1] == 2 * 32 * 2048 * 128


def test_flash_forward_of_many_rows_is_not_split():
    args = (heads(), heads(), heads())

    assert attention_temporaries(aten._scaled_dot_product_flash_attention.default, args, A100) == []


def test_flash_forward_of_one_query_is_split_over_the_keys():
    """8 heads on 2 x 108 slots, and 32 blocks of 128 keys.

    Of the counts that change how many blocks a split has, 16 and 32 fill 128 / 216 and 256 / 432 of the
    slots, both 59% and the best; 11 fill 41%, less than 85% of that. The first is taken.
    """
    args = (heads(count=8, rows=1), heads(count=8, rows=4096), heads(count=8, rows=4096))

    sizes = attention_temporaries(aten._scaled_dot_product_flash_attention.default, args, A100)

    splits = 16
    assert sizes == [4 * splits * 8, 4 * splits * 8 * 128]


def test_flash_forward_with_dropout_is_not_split():
    args = (heads(count=8, rows=1), heads(count=8, rows=4096), heads(count=8, rows=4096), 0.1)

    assert attention_temporaries(aten._scaled_dot_product_flash_attention.default, args, A100) == []


def test_the_efficient_kernel_sums_wide_heads_in_fp32():
    args = (heads(width=256), heads(width=256), heads(width=256))

    sizes = attention_temporaries(aten._scaled_dot_product_efficient_attention.default, args, A100)

    assert sizes == [4 * 2048 * 32 * 256]


def test_the_efficient_kernels_workspace_for_narrow_halves():
    """Tiles of 64 x 64: 1,024 / 64 query tiles of 4 + 4,096 numbers, for each of 8 x 12 matrices."""
    query = heads(8, 12, 1024, 64)

    assert workspace_bytes(attention_call(query, query, query), A100) == 4 * 8 * 12 * 16 * (4 + 64 * 64)


def test_the_efficient_kernels_backward_in_fp32_makes_a_product():
    query = heads(8, 12, 1024, 64, torch.float32)
    args = (query, query, query, query)

    sizes = attention_temporaries(aten._scaled_dot_product_efficient_attention_backward.default, args, A100)

    workspace = 4 * 96 * 16 * (4 + 64 * 64)
    assert sizes == [4 * 96 * 1024, max(4 * 96 * 1024 * 64, workspace)]


def test_the_efficient_kernels_workspace_in_fp32_is_the_query_tiles_alone():
    """Recorded on a real GPU: 8,396,800 bytes, 32 heads of 16 query tiles of 4 + 64 x 64 numbers."""
    query = heads(1, 32, 1000, 64, torch.float32)

    assert workspace_bytes(attention_call(query, query, query), A100) == 8_396_800 == 4 * 32 * 16 * 4100


def test_the_efficient_kernels_workspace_for_wide_halves_has_key_and_value_sums():
    """Tiles of 128 x 64: 200 // 96 = 2 splits of 64 keys, 256 + 256 wide, and 8 x 4 query tiles."""
    query = heads(8, 12, 1024, 256)

    sums, tiles = 2 * 64 * (256 + 256), 8 * 4 * (4 + 128 * 64)
    assert workspace_bytes(attention_call(query, query, query), A100) == 4 * 96 * (sums + tiles)


def test_a_safe_softmax_masks_its_scores_and_its_rows():
    """A boolean for each score, one for each row and a zero: ``masked``, ``masked_rows`` and ``zero`` of
    ``_safe_softmax`` in aten/src/ATen/native/transformers/attention.cpp (pytorch/pytorch).
    """
    scores = torch.empty(2, 4, 8, 16, device="meta")

    assert attention_temporaries(aten._safe_softmax.default, (scores, -1), A100) == [1024, 64, 4]


def test_outputs_that_only_fakes_have_on_the_device():
    efficient = aten._scaled_dot_product_efficient_attention.default
    cudnn = aten._scaled_dot_product_cudnn_attention.default

    without_dropout = (2, 3) if torch_release() < (2, 15) else ()
    assert missing_on_cuda(efficient, (None,) * 5) == without_dropout
    assert missing_on_cuda(efficient, (None, None, None, None, True, 0.1)) == (2, 3)
    assert missing_on_cuda(cudnn, (None, None, None, None, False)) == (1,)
    assert missing_on_cuda(cudnn, (None, None, None, None, True)) == ()


def flash_step(dropout):
    query, key, value = (
        torch.randn(1, 2048, 32, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True).transpose(1, 2)
        for _ in range(3)
    )
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
    output.backward(torch.empty_like(output))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_traced_backward_has_the_kernels_temporaries_in_its_peak(trace, dropout):
    traced = trace(flash_step, dropout)

    # three operands, output, its gradient, three gradients: 16 MiB each; 32 MiB of fp32 sums, 256 KiB of rows
    assert traced.workspaces == 4 * 32 * 2048 * 129
    assert traced.allocated >= 8 * 16 * MIB + traced.workspaces
