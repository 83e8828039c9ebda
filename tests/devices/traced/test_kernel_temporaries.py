"""What element-wise kernels, losses, copies and draws hold besides; figures by hand from the sources.

Where a test says "recorded", the figure stands in a public allocator history of a real GPU.
"""

import pytest
import torch
from kernel_calls import MI300X, held, meta
from pytest_membudget.devices.fake.kernel_temporaries import KERNELS

aten = torch.ops.aten


def test_where_converts_a_half_next_to_fp32():
    mask, half, wide = meta(64, 64, dtype=torch.bool), meta(64, 64, dtype=torch.bfloat16), meta(64, 64)

    assert held(aten.where.self, mask, half, wide) == [4 * 64 * 64]


def test_where_brings_a_host_scalar_to_the_device():
    mask, tensor = meta(64, 64, dtype=torch.bool), meta(64, 64)

    assert held(aten.where.self, mask, tensor, torch.tensor(0.0), result=tensor) == [4]


def test_a_running_sum_of_booleans_converts_them_first():
    assert held(aten.cumsum.default, meta(8, 1000, dtype=torch.bool), 1) == [8 * 8 * 1000]


def test_softmax_backward_multiplies_gradient_and_result_first():
    output = meta(8, 1000)

    assert held(aten._softmax_backward_data.default, output, output, 1, torch.float32) == [4 * 8 * 1000]


def test_softmax_backward_multiplies_an_expanded_gradient_as_it_is():
    args = (meta().expand(8, 1000), meta(8, 1000), 1, torch.float32)

    assert held(aten._softmax_backward_data.default, *args) == [4 * 8 * 1000]


def test_softmax_backward_reads_contiguous():
    """Both transposed: the product is too, and it and the result are copied."""
    output = meta(1000, 8).t()
    args = (output, output, 1, torch.float32)

    assert held(aten._softmax_backward_data.default, *args) == [4 * 8 * 1000] * 3


def test_log_softmax_backward_makes_no_product():
    output = meta(8, 1000)

    assert held(aten._log_softmax_backward_data.default, output, output, 1, torch.float32) == []


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


def test_a_loss_of_probabilities_holds_the_reduced_one_and_its_own_storage():
    """The losses are the result's own storage; a mean of 2**22 numbers takes all blocks of the card."""
    assert held(aten.binary_cross_entropy.default, meta(2**22), meta(2**22)) == [4, 4 * 4 * 108, 4]


def probabilities(reduction):
    given = torch.full((1000, 1000), 0.5, device="cuda")
    loss = torch.nn.functional.binary_cross_entropy(given, torch.ones_like(given), reduction=reduction)
    return list(loss.shape), loss.untyped_storage().nbytes()


def test_a_loss_of_probabilities_keeps_the_storage_of_all_losses(trace):
    assert trace(probabilities, "mean").value == [[], 4 * 1000 * 1000]
    assert trace(probabilities, "none").value == [[1000, 1000], 4 * 1000 * 1000]


def mean_of_squares(kind, reduction):
    given = torch.full((1000, 1000), 0.5, device="cuda")
    target = torch.ones(1, 1000, device="cuda")
    loss = getattr(torch.nn.functional, kind)(given, target, reduction=reduction)
    return list(loss.shape), loss.untyped_storage().nbytes()


@pytest.mark.parametrize("kind", ["mse_loss", "smooth_l1_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_mean_of_squares_keeps_the_storage_of_all_losses(trace, kind):
    """``TensorIterator``'s output is the operator's own result first, of the size of both broadcast."""
    assert trace(mean_of_squares, kind, "mean").value == [[], 4 * 1000 * 1000]
    assert trace(mean_of_squares, kind, "none").value == [[1000, 1000], 4 * 1000 * 1000]


def test_positive_weights_of_a_loss_of_logits_come_before_its_losses():
    """1,000 weights, and all of them written out, beside the log-sigmoids: more than the losses are."""
    arguments = (meta(8, 1000), meta(8, 1000), None, meta(1000))

    sizes = held(aten.binary_cross_entropy_with_logits.default, *arguments)

    assert sizes == [4 * 8 * 1000, 4 * 1000, 4 * 8 * 1000]


def test_class_losses_copy_what_is_not_contiguous():
    scores, classes = meta(1000, 8).t(), meta(8, dtype=torch.int64)

    assert held(aten.nll_loss_forward.default, scores, classes, None, 1, -100) == [4 * 8 * 1000]


def host(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype)


def test_a_contiguous_copy_to_the_device_goes_as_it_lies():
    assert held(aten.copy_.default, meta(64, 64), host(64, 64), result=meta(64, 64)) == []


def test_a_dense_copy_needs_no_temporary_where_both_sides_have_equal_strides():
    assert held(aten.copy_.default, meta(64, 32).t(), host(64, 32).t(), result=meta(1)) == []


def test_a_copy_into_every_second_column_goes_by_way_of_a_contiguous_one():
    target = meta(64, 64)[:, ::2]

    assert held(aten.copy_.default, target, host(64, 32), result=target) == [4 * 64 * 32]


def test_a_blocking_copy_is_converted_on_the_host_and_another_on_the_device():
    half, wide = host(64, 64, dtype=torch.float16), meta(64, 64)

    assert held(aten.copy_.default, wide, half, result=wide) == []
    assert held(aten.copy_.default, wide, half, True, result=wide) == [2 * 64 * 64]


def test_a_copy_to_the_host_is_made_contiguous_on_the_device():
    columns = meta(64, 64)[:, ::2]

    assert held(aten._to_copy.default, columns, result=host(64, 32)) == [4 * 64 * 32]


def test_a_non_blocking_copy_to_the_host_is_converted_on_the_device():
    result = host(64, 64, dtype=torch.float16)

    assert held(aten._to_copy.default, meta(64, 64), result=result, non_blocking=True) == [2 * 64 * 64]


def test_a_draw_without_replacement_searches_in_noise():
    """Two booleans, noise like the 8 x 1,000 weights, and the 20 largest values of each row."""
    weights = meta(8, 1000)

    sizes = held(aten.multinomial.default, weights, 20, result=meta(8, 20, dtype=torch.int64))

    assert sizes == [1, 1, 4 * 8 * 1000, 4 * 8 * 20]


def test_a_draw_with_replacement_copies_the_weights_three_times():
    result = meta(8, 20, dtype=torch.int64)

    assert held(aten.multinomial.default, meta(8, 1000), 20, True, result=result) == [4 * 8 * 1000] * 3


def test_a_permutation_sorts_a_range_by_random_keys():
    """1,000 numbers: 23 bits, so keys of 4 bytes; few enough to be sorted in one tile."""
    result = meta(1000, dtype=torch.int64)

    assert held(aten.randperm.default, 1000, result=result) == [8 * 1000, 4 * 1000, 4 * 1000, 1]


def test_ctc_keeps_the_chances_of_what_follows():
    """12 samples of 50 steps and targets of up to 20 of 30 classes: 41 places each."""
    scores, chances = meta(50, 12, 30), meta(12, 50, 41)
    lengths = [50] * 12, [20] * 12
    arguments = (meta(12), scores, meta(12, 20, dtype=torch.int64), *lengths, meta(12), chances, 0)

    sizes = held(aten._ctc_loss_backward.default, *arguments, result=scores)

    assert sizes == [4 * 12 * 50 * 41, *[8 * 12] * 3]


def test_a_roll_over_two_dimensions_makes_one_more_tensor():
    assert held(aten.roll.default, meta(8, 56, 56), [3, 3], [1, 2]) == [4 * 8 * 56 * 56]
    assert held(aten.roll.default, meta(8, 56, 56), [3], [1]) == []


def test_indices_on_the_host_are_brought_to_the_device():
    rows = host(50, dtype=torch.int64)

    assert held(aten.index.Tensor, meta(100, 8), [rows], result=meta(50, 8)) == [8 * 50]


def test_narrow_indices_are_widened():
    assert held(aten.index.Tensor, meta(100, 8), [meta(50, dtype=torch.int32)]) == [8 * 50]
