"""What CUDA kernels hold beside inputs and outputs; figures by hand from the sources' formulas.

Where a test says "recorded", the figure stands in a public allocator history of a real GPU.
"""

import pytest
import torch

from pytest_membudget.gpus import find_gpu
from pytest_membudget.virtual.kernel_sorting import radix_sort_storage_bytes
from pytest_membudget.virtual.kernel_temporaries import KERNELS, kernel_temporaries

aten = torch.ops.aten
A100 = find_gpu("A100-80GB")  # 108 multiprocessors of 2,048 threads
H100 = find_gpu("H100-80GB")  # 132
L4 = find_gpu("L4")  # 58 of 1,536
MI300X = find_gpu("MI300X")


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def held(func, *args, gpu=A100, result=None, **kwargs):
    """The rule's sizes; the result is the operator's own, on meta tensors."""
    result = func(*args, **kwargs) if result is None else result
    return kernel_temporaries(func, args, kwargs, result, gpu)


# --- reductions


def test_a_sum_of_everything_is_split_over_blocks():
    """Recorded (silmont2000/assignment2-systems, torch 2.6): 256 and 4 bytes.

    512 threads that load 4 at a time: 1,024 numbers each, split so that each has 16: 64 blocks.
    """
    assert held(aten.sum.default, meta(8, 4096, 16)) == [4 * 64, 4]


@pytest.mark.parametrize(
    ("shape", "buffer", "semaphores"),
    [
        # recorded 25 times for the 25 norms of 12 layers (MAGMA27/assignment2-systems, torch 2.11)
        ((32, 256, 768), 50_331_648, 24),
        # recorded 49 times for the 49 norms of 24 layers (Wedsonlin/assignment2-systems, torch 2.11)
        ((4, 512, 1024), 16_777_216, 32),
    ],
)
def test_a_parameters_gradient_summed_over_rows(shape, buffer, semaphores):
    assert held(aten.sum.dim_IntList, meta(*shape), [0, 1]) == [buffer, semaphores]


def test_a_sum_over_a_dimension_that_is_not_the_fastest():
    """Recorded 65 times (kkaitlyn111/cs336-a2-systems): 512 rows of 2,560, rows fastest.

    Blocks of 32 x 4 threads, 4 outputs a thread: 4 blocks; 640 numbers a thread, split by 40.
    """
    rows = meta(2560, 512).t()

    assert held(aten.sum.dim_IntList, rows, [1]) == [4 * 512 * 40 * 32 * 4, 4 * 4] == [10_485_760, 16]


def test_a_maximum_with_its_index_has_pairs_of_16_bytes():
    """Recorded once (the same history): the largest of 10,000 for each of 512 rows, rows fastest."""
    rows = meta(10_000, 512).t()

    assert held(aten.max.dim, rows, 1) == [16 * 512 * 157 * 32 * 4, 4 * 4] == [164_626_432, 16]


def test_a_reduction_of_short_rows_needs_nothing():
    assert held(aten.sum.dim_IntList, meta(32, 256, 768), [-1]) == []


def test_halves_are_summed_in_fp32_eight_at_a_time():
    """8,192 numbers for each of 512 threads: split as far as the card has room, 4 blocks a multiprocessor."""
    tensor = meta(2**22, dtype=torch.bfloat16)

    assert held(aten.sum.default, tensor) == [4 * 4 * 108, 4]


def test_a_card_with_fewer_threads_splits_less():
    """58 multiprocessors with room for three blocks of 512."""
    assert held(aten.sum.default, meta(2**22), gpu=L4) == [4 * 3 * 58, 4]


def test_a_sum_of_booleans_converts_them_first():
    assert held(aten.sum.default, meta(1000, dtype=torch.bool)) == [8 * 1000]


def test_a_half_summed_in_fp32_is_not_converted_first():
    tensor = meta(64, 64, dtype=torch.bfloat16)

    assert held(aten.sum.dim_IntList, tensor, [1], dtype=torch.float32) == []


def test_a_sum_of_more_than_2_gib_is_taken_in_halves():
    """Halves of 2**29 numbers: 4,096 blocks of 512 threads, so that no thread has more than 256."""
    assert held(aten.sum.default, meta(2**30)) == [4 * 4096, 4]


def test_a_norm_has_fp32_partial_results_and_a_maximum_its_own_type():
    """2**22 halves, 4 a load for both: 8,192 numbers a thread, as many blocks as the card has room for."""
    tensor = meta(2**22, dtype=torch.float16)

    assert held(aten.linalg_vector_norm.default, tensor) == [4 * 4 * 108, 4]
    assert held(aten.amax.default, tensor) == [2 * 4 * 108, 4]


def test_a_variance_has_partial_results_of_16_bytes():
    assert held(aten.var.correction, meta(2**22)) == [16 * 4 * 108, 4]


def test_a_strided_input_is_read_in_the_order_it_lies():
    """The sum over rows of a transposed matrix is the sum over columns as it lies: no splitting."""
    assert held(aten.sum.dim_IntList, meta(768, 8192).t(), [0]) == []


def test_logsumexp_makes_a_shifted_copy():
    tensor = meta(8, 1000)

    assert held(aten.logsumexp.default, tensor, [1]) == [4 * 8, 4 * 8 * 1000]


# --- sorts


def test_radix_sort_storage_as_recorded():
    """138,751 bytes (MAGMA27/assignment2-systems, torch 2.11) for 8,192 indices below 10,000.

    14 bits, two passes: bins, 3 tiles of 3,840, spare keys and values, counters; room to be aligned.
    """
    storage = radix_sort_storage_bytes(8192, 8, 8, 14, A100)

    assert storage == 2 * 256 * 8 + 3 * 1024 + 2 * 65536 + 256 + 255 == 138_751


def test_few_keys_are_sorted_in_one_tile():
    """Recorded as 1 byte (Wedsonlin/assignment2-systems) for 2,048 indices: no more than 256 threads x 9."""
    assert radix_sort_storage_bytes(2048, 8, 8, 14, A100) == 1


def test_a_hopper_sorts_larger_tiles():
    """384 threads x 12: 8,192 in two tiles."""
    assert radix_sort_storage_bytes(8192, 8, 8, 14, H100) == 4096 + 2 * 1024 + 2 * 65536 + 256 + 255


def test_indexing_backward_sorts_the_indices():
    """Recorded (MAGMA27/assignment2-systems): four tensors of 65,536 bytes beside the sort's storage."""
    gradient, indices, rows = meta(10_000, 768), meta(32, 256, dtype=torch.int64), meta(32, 256, 768)

    sizes = held(aten._index_put_impl_.default, gradient, [indices], rows, True, True)

    assert sizes == [65536] * 4 + [138_751]


def test_indexing_backward_expands_values_that_are_one_number():
    gradient, indices = meta(100, 64), meta(50, dtype=torch.int64)

    sizes = held(aten.index_put_.default, gradient, [indices], meta(), True)

    assert sizes == [4 * 50 * 64, *[8 * 50] * 4, 1]


def test_assigning_at_indices_sorts_nothing():
    assert held(aten.index_put_.default, meta(100, 64), [meta(50, dtype=torch.int64)], meta(50, 64)) == []


def test_embedding_backward_sums_groups_of_ten_rows():
    """16,384 indices into 1,000 rows of 64: 1,638 whole groups and one begun for each row."""
    indices, gradient = meta(16384, dtype=torch.int64), meta(16384, 64, dtype=torch.bfloat16)

    sizes = held(aten.embedding_dense_backward.default, gradient, indices, 1000, -1, False)

    groups = 1638 + 1000
    assert sizes == [*[8 * 16384] * 3, 8 * 1000, 8 * 1000, 8 * groups, 4 * groups * 64]


def test_embedding_backward_into_few_rows_adds_up_in_fp32():
    """16,384 indices into 100 rows of 4,096: 400 blocks, fewer than 4 x 108 and a quarter of 1,738 groups."""
    indices, gradient = meta(16384, dtype=torch.int64), meta(16384, 4096, dtype=torch.bfloat16)

    sizes = held(aten.embedding_dense_backward.default, gradient, indices, 100, -1, False)

    groups = 1638 + 100
    assert sizes == [*[8 * 16384] * 3, 8 * 100, 8 * 100, 8 * groups, 8 * groups, 4 * 100 * 4096]


def test_embedding_backward_into_a_tiny_table_peaks_in_the_sort():
    """All 64 bits: eight passes, 5 tiles; the result of 100 x 8 halves comes after it."""
    indices, gradient = meta(16384, dtype=torch.int64), meta(16384, 8, dtype=torch.bfloat16)

    sizes = held(aten.embedding_dense_backward.default, gradient, indices, 100, -1, False)

    storage = 8 * 256 * 8 + 5 * 1024 + 2 * 8 * 16384 + 256 + 255
    assert sizes == [*[8 * 16384] * 3, storage - 2 * 100 * 8]


def test_embedding_backward_of_few_indices_sorts_nothing():
    indices, gradient = meta(3072, dtype=torch.int64), meta(3072, 64)

    assert held(aten.embedding_dense_backward.default, gradient, indices, 1000, -1, False) == []


def test_embedding_backward_copies_an_expanded_gradient():
    indices, gradient = meta(512, dtype=torch.int64), meta().expand(512, 64)

    assert held(aten.embedding_dense_backward.default, gradient, indices, 1000, -1, False) == [4 * 512 * 64]


def test_a_sort_of_many_rows_takes_indices_and_cubs_copy():
    """256 rows of 8,192: an index each; CUB keeps spare keys and values and 255 bytes to be aligned."""
    sizes = held(aten.sort.default, meta(256, 8192))

    assert sizes == [8 * 256 * 8192, (4 + 8) * 256 * 8192 + 255]


def test_a_sort_of_one_row():
    """2**20 fp32 keys with 8-byte values: 384 threads x 8; 342 tiles, four passes."""
    sizes = held(aten.sort.default, meta(2**20))

    assert sizes == [8 * 2**20, 4 * 256 * 8 + 342 * 1024 + (4 + 8) * 2**20 + 256 + 255]


def test_a_sort_of_short_rows_makes_one_range():
    assert held(aten.sort.default, meta(256, 4096)) == [8 * 4096]


def test_a_sort_along_a_slow_dimension_works_on_copies():
    sizes = held(aten.sort.default, meta(8192, 256), 0)

    each = 256 * 8192
    assert sizes == [4 * each, 4 * each, 8 * each, 8 * each, (4 + 8) * each + 255]


def test_indexing_two_dimensions_apart_works_on_a_permuted_copy():
    tensor, index = meta(100, 8, 100), meta(50, dtype=torch.int64)

    sizes = held(aten.index_put_.default, tensor, [index, None, index], meta(50, 8), True)

    assert sizes == [4 * 100 * 8 * 100, *[8 * 50] * 4, 1]


def test_many_of_the_largest_are_sorted_and_gathered():
    """8,192 of each row: sorted values and indices, beside what the sort of 256 rows takes."""
    each = 256 * 8192

    sizes = held(aten.topk.default, meta(256, 16384), 8192)

    assert sizes == [8 * each, 4 * each, 8 * each, (4 + 8) * each + 255]


# --- normalizations


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


# --- matrix products


def test_an_expanded_gradient_is_copied_for_cublas():
    assert held(aten.mm.default, meta().expand(128, 64), meta(64, 32)) == [4 * 128 * 64]


def test_a_transposed_matrix_is_not_copied():
    assert held(aten.mm.default, meta(64, 128).t(), meta(64, 32)) == []


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


# --- element-wise kernels and losses


def test_where_converts_a_half_beside_fp32():
    mask, half, wide = meta(64, 64, dtype=torch.bool), meta(64, 64, dtype=torch.bfloat16), meta(64, 64)

    assert held(aten.where.self, mask, half, wide) == [4 * 64 * 64]


def test_where_brings_a_host_scalar_to_the_device():
    mask, tensor = meta(64, 64, dtype=torch.bool), meta(64, 64)

    assert held(aten.where.self, mask, tensor, torch.tensor(0.0), result=tensor) == [4]


def test_a_running_sum_of_booleans_converts_them_first():
    assert held(aten.cumsum.default, meta(8, 1000, dtype=torch.bool), 1) == [8 * 8 * 1000]


def test_softmax_backward_copies_an_expanded_gradient():
    output = meta(8, 1000)
    args = (meta().expand(8, 1000), output, 1, torch.float32)

    assert held(aten._softmax_backward_data.default, *args) == [4 * 8 * 1000]


def test_a_mean_squared_error_holds_every_elements_loss():
    assert held(aten.mse_loss.default, meta(8, 1000), meta(8, 1000)) == [4 * 8 * 1000]


def test_a_loss_that_is_not_reduced_holds_nothing():
    assert held(aten.mse_loss.default, meta(8, 1000), meta(8, 1000), 0) == []


def test_a_loss_of_logits_holds_their_log_sigmoid_too():
    arguments = (meta(8, 1000), meta(8, 1000))

    assert held(aten.binary_cross_entropy_with_logits.default, *arguments) == [4 * 8 * 1000] * 2


def test_norms_of_many_tensors_have_as_many_chunks_as_the_largest():
    """1,000,000 numbers in chunks of 65,536: 16 for each of three tensors."""
    tensors = [meta(1_000_000), meta(10), meta(10)]

    assert held(aten._foreach_norm.Scalar, tensors, 2) == [4 * 3 * 16]


def test_other_operators_and_other_backends_have_no_rule():
    assert aten.add.Tensor not in KERNELS
    assert held(aten.add.Tensor, meta(8), meta(8)) == []
    assert held(aten.sum.default, meta(8, 4096, 16), gpu=MI300X) == []
