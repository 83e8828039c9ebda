"""What sorts, searches and lookups' backward hold besides; figures by hand from the sources' formulas.

Where a test says "recorded", the figure stands in a public allocator history of a real GPU.
"""

import torch
from kernel_calls import A100, H100, held, meta

from pytest_membudget.kernels.radix_sort import radix_sort_storage_bytes

aten = torch.ops.aten


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
    # and two numbers: how many indices there are, and how many groups
    assert sizes == [*[8 * 16384] * 3, 8, 8 * 1000, 8 * 1000, 8, 8 * groups, 4 * groups * 64]


def test_embedding_backward_into_few_rows_adds_up_in_fp32():
    """16,384 indices into 100 rows of 4,096: 400 blocks, fewer than 4 x 108 and a quarter of 1,738 groups."""
    indices, gradient = meta(16384, dtype=torch.int64), meta(16384, 4096, dtype=torch.bfloat16)

    sizes = held(aten.embedding_dense_backward.default, gradient, indices, 100, -1, False)

    groups = 1638 + 100
    assert sizes == [*[8 * 16384] * 3, 8, 8 * 100, 8 * 100, 8, 8 * groups, 8 * groups, 4 * 100 * 4096]


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


def test_a_search_in_a_long_row_is_split_over_blocks():
    """128,256 numbers on an H100: 132 x 6 blocks at once would have one each, but four is the least.

    126 blocks of 256 threads. Values, two counts and two patterns a row; digits of each block and each row;
    two counts a block; CUB: 33 states of 16 bytes, and two keys.
    """
    sizes = held(aten.topk.default, meta(1, 128_256), 50, gpu=H100)

    assert sizes == [4, 8, 8, 126 * 256 * 2, 256 * 4, 126 * 4, 126 * 4, 1024 + 256 + 255]


def test_a_search_in_a_short_row_takes_nothing():
    assert held(aten.topk.default, meta(1, 19_999), 50) == []


def test_a_search_copies_what_is_not_contiguous():
    assert held(aten.topk.default, meta(1000, 8).t(), 5) == [4 * 8 * 1000]


def test_a_median_of_everything_sorts_all_of_it():
    """Flat values and positions; short enough to sort in place with one more range of positions."""
    assert held(aten.median.default, meta(10, 100)) == [4 * 1000, 8 * 1000, 8 * 1000]


def test_embedding_bags_sort_their_indices_however_few():
    """500 indices into 1,000 rows of 64: 50 whole groups and one begun for each index."""
    indices, gradient = meta(500, dtype=torch.int64), meta(50, 64)
    bags = (indices, meta(50, dtype=torch.int64), meta(0, dtype=torch.int64))
    arguments = (gradient, indices, *bags, 1000, False, 0, None)

    sizes = held(aten._embedding_bag_dense_backward.default, *arguments, result=meta(1000, 64))

    assert sizes == [*[8 * 500] * 3, 8, 8 * 500, 8 * 500, 8, 8 * 550, 4 * 550 * 64]


def test_the_largest_of_an_embedding_bag_sorts_nothing():
    indices, gradient = meta(500, dtype=torch.int64), meta(50, 64)
    bags = (indices, meta(50, dtype=torch.int64), meta(50, 64, dtype=torch.int64))
    arguments = (gradient, indices, *bags, 1000, False, 2, None)

    assert held(aten._embedding_bag_dense_backward.default, *arguments, result=meta(1000, 64)) == []


def test_embedding_bags_into_few_rows_are_summed_in_groups_all_the_same():
    """16,384 indices into 100 rows: 1,638 whole groups and one begun for each row."""
    indices, gradient = meta(16384, dtype=torch.int64), meta(64, 4096, dtype=torch.bfloat16)
    bags = (indices, meta(64, dtype=torch.int64), meta(0, dtype=torch.int64))
    arguments = (gradient, indices, *bags, 100, False, 1, None)

    sizes = held(aten._embedding_bag_dense_backward.default, *arguments, result=meta(100, 4096))

    assert sizes[-2:] == [8 * 1738, 4 * 1738 * 4096]
