"""What flash and memory-efficient attention hold in addition to operands and results, by hand."""

import pytest

from pytest_membudget.formulas.kernels import efficient_attention, flash_attention
from pytest_membudget.formulas.kernels.attention_call import AttentionCall
from pytest_membudget.hardware.gpus import find_gpu

A100 = find_gpu("A100-80GB")  # 108 multiprocessors


def call(batch=1, heads=32, key_heads=None, queries=2048, keys=None, width=128, element_bytes=2, **options):
    key_heads, keys = key_heads or heads, keys or queries
    return AttentionCall(
        batch, heads, key_heads, key_heads, queries, keys, width, width, element_bytes, **options
    )


def test_flash_backward_sums_query_gradients_in_fp32():
    """32 heads of 2,048 queries: a softmax sum a row, 128 numbers a row for the query's gradient."""
    assert flash_attention.backward_bytes(call()) == [4 * 32 * 2048, 4 * 32 * 2048 * 128]


def test_flash_backward_expands_the_keys_of_grouped_queries():
    assert flash_attention.backward_bytes(call(key_heads=8))[2:] == [2 * 2048 * 32 * 128] * 2


def test_flash_forward_of_one_query_is_split_over_the_keys():
    """8 heads on 2 x 108 slots, and 32 blocks of 128 keys.

    Of the counts that change how many blocks a split has, 16 and 32 fill 128 / 216 and 256 / 432 of the
    slots, both 59% and the best; 11 fill 41%, less than 85% of that. The first is taken.
    """
    one = {"heads": 8, "queries": 1, "keys": 4096}

    assert flash_attention.forward_bytes(call(**one), A100) == [4 * 16 * 8, 4 * 16 * 8 * 128]
    assert flash_attention.forward_bytes(call(**one, has_dropout=True), A100) == []


def test_flash_forward_of_many_rows_is_not_split():
    assert flash_attention.forward_bytes(call(), A100) == []


def test_the_efficient_kernel_sums_wide_heads_in_fp32():
    assert efficient_attention.forward_bytes(call(width=256), A100) == [4 * 2048 * 32 * 256]


@pytest.mark.parametrize(
    ("made", "workspace"),
    [
        # tiles of 64 x 64: 1,024 / 64 query tiles of 4 + 4,096 numbers, for each of 8 x 12 matrices
        (call(8, 12, queries=1024, width=64), 4 * 8 * 12 * 16 * (4 + 64 * 64)),
        # recorded on a real GPU: 8,396,800 bytes, 32 heads of 16 query tiles of 4 + 64 x 64 numbers
        (call(queries=1000, width=64, element_bytes=4), 8_396_800),
        # tiles of 128 x 64: 200 // 96 = 2 splits of 64 keys, 256 + 256 wide, and 8 x 4 query tiles
        (
            call(8, 12, queries=1024, width=256),
            4 * 96 * (2 * 64 * (256 + 256) + 8 * 4 * (4 + 128 * 64)),
        ),
    ],
)
def test_the_efficient_kernels_workspace(made, workspace):
    assert efficient_attention.workspace_bytes(made, A100) == workspace


def test_the_efficient_kernels_backward_in_fp32_makes_a_product():
    workspace = 4 * 96 * 16 * (4 + 64 * 64)

    sizes = efficient_attention.backward_bytes(call(8, 12, queries=1024, width=64, element_bytes=4), A100)

    assert sizes == [4 * 96 * 1024, max(4 * 96 * 1024 * 64, workspace)]
