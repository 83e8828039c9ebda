"""What reductions hold besides; figures by hand from the sources' formulas.

Where a test says "recorded", the figure stands in a public allocator history of a real GPU.
"""

import pytest
import torch
from kernel_calls import L4, held, meta

aten = torch.ops.aten


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


def test_a_product_loads_four_halves_at_a_time_and_keeps_fp32():
    """2**22 halves: 512 threads that load 4 at a time, as many blocks as the card has room for."""
    tensor = meta(2**22, dtype=torch.bfloat16)

    assert held(aten.prod.default, tensor) == [4 * 4 * 108, 4]
    assert held(aten.nansum.default, tensor) == [4 * 4 * 108, 4]


def test_a_count_of_what_is_not_zero_makes_a_mask_and_converts_it():
    assert held(aten.count_nonzero.default, meta(8, 100)) == [800, 8 * 800]


def test_gradients_of_distances_are_made_for_each_pair():
    """4 batches of 100 rows against 50, 64 wide."""
    first, second = meta(4, 100, 64), meta(4, 50, 64)
    arguments = (meta(4, 100, 50), first, second, 2.0, meta(4, 100, 50))

    sizes = held(aten._cdist_backward.default, *arguments, result=first)

    assert sizes == [4 * 4 * 50 * 100 * 64]
