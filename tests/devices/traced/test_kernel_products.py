"""What normalizations and matrix products hold besides; figures by hand from the sources' formulas.

Where a test says "recorded", the figure stands in a public allocator history of a real GPU.
"""

import torch
from kernel_calls import held, meta

aten = torch.ops.aten


def layer_norm_backward(rows, width, mask=(True, True, True)):
    tensor, weight = meta(rows, width), meta(width)
    args = (tensor, tensor, [width], meta(rows, 1), meta(rows, 1), weight, weight, list(mask))
    return held(aten.native_layer_norm_backward.default, *args)


def test_layer_norm_backward_of_many_short_rows_sums_in_blocks():
    """131,072 rows of 256: 8 columns of blocks, 4,096 blocks of 32 rows each, then a sum over them.

    That sum: 2 blocks of 32 x 4 threads with 4 outputs a thread; 1,024 rows a thread, split by 64.
    """
    partials = 4 * 4096 * 256

    assert layer_norm_backward(131_072, 256) == [
        *(partials, partials, 4 * 256),
        *(4 * 256 * 64 * 32 * 4, 4 * 2),
    ]


def test_layer_norm_backward_of_wide_rows_needs_nothing():
    """4,096 / 32 = 128 columns of blocks: no fewer than half of 108."""
    assert layer_norm_backward(131_072, 4096) == []


def test_layer_norm_backward_of_few_rows_needs_nothing():
    assert layer_norm_backward(65_536, 256) == []


def test_layer_norm_copies_a_permuted_input():
    tensor = meta(2, 64, 100).transpose(1, 2)

    assert held(aten.native_layer_norm.default, tensor, [64], None, None, 1e-5) == [4 * 2 * 64 * 100]


def test_group_norm_backward_sums_in_each_channel():
    """Two sums and a factor for each of 4 x 320 channels, two numbers for each of 4 x 32 groups."""
    tensor = meta(4, 320, 64, 64, dtype=torch.bfloat16)
    statistics, weight = meta(4, 32, dtype=torch.bfloat16), meta(320, dtype=torch.bfloat16)
    args = (tensor, tensor, statistics, statistics, weight, 4, 320, 4096, 32, [True, True, True])

    sizes = held(aten.native_group_norm_backward.default, *args, result=(tensor, weight, weight))

    assert sizes == [*[4 * 4 * 320] * 3, *[4 * 4 * 32] * 2]


def test_an_expanded_gradient_is_copied_for_cublas():
    assert held(aten.mm.default, meta().expand(128, 64), meta(64, 32)) == [4 * 128 * 64]


def test_a_transposed_matrix_is_not_copied():
    assert held(aten.mm.default, meta(64, 128).t(), meta(64, 32)) == []


def test_a_column_is_not_copied_wherever_its_only_numbers_stride_would_lead():
    """Dense, as ``is_non_overlapping_and_dense`` says, which leaves out dimensions of size 1."""
    column = torch.empty_strided((64, 1), (1, 7), device="meta")

    assert held(aten.mm.default, column, meta(1, 32)) == []


def test_rows_with_gaps_are_not_copied():
    assert held(aten.mm.default, meta(128, 100)[:, :64], meta(64, 32)) == []


def test_every_second_column_is_copied():
    assert held(aten.mm.default, meta(128, 128)[:, ::2], meta(64, 32)) == [4 * 128 * 64]


def test_addmm_copies_its_factors_and_not_its_bias():
    bias = meta(32).expand(128, 32)

    assert held(aten.addmm.default, bias, meta().expand(128, 64), meta(64, 32)) == [4 * 128 * 64]


def test_an_expanded_gradient_of_a_batch_is_copied():
    """Recorded (silmont2000/assignment2-systems): 2,097,152 bytes in each product with a sum's gradient."""
    gradient, values = meta().expand(8, 4096, 16), meta(8, 16, 4096)

    assert held(aten.bmm.default, gradient, values) == [2_097_152]


def test_heads_taken_apart_are_not_copied():
    """(batch x heads, rows, width) as a view of (rows, batch x heads x width)."""
    heads = meta(128, 12 * 64).view(128, 12, 64).transpose(0, 1)

    assert held(aten.bmm.default, heads, heads.transpose(1, 2)) == []


def test_a_batch_in_neither_order_is_copied():
    batch = meta(128, 12, 64).permute(1, 0, 2)[:, :, ::2]

    assert held(aten.bmm.default, batch, meta(12, 32, 8)) == [4 * 12 * 128 * 32]


def test_a_vector_of_one_number_is_written_out():
    assert held(aten.mv.default, meta(128, 64), meta(1).expand(64)) == [4 * 64]
