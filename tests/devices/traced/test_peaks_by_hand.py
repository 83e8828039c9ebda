"""Peaks that follow from PyTorch's source by hand, where an imitation of its operators would be wrong."""

import gc

import torch
from torch import nn

MIB = 2**20


def looked_for():
    torch.isin(
        torch.zeros(16 * MIB, dtype=torch.int64, device="cuda"),
        torch.zeros(8, dtype=torch.int64, device="cuda"),
    )


def test_isin_compares_with_each_of_few_elements(trace):
    """128 MiB of elements; a mask of 16 MiB for each of eight, their union, and the result.

    ``isin_Tensor_Tensor_out`` (aten/src/ATen/native/TensorCompare.cpp) compares where there are few.
    """
    traced = trace(looked_for)

    assert traced.allocated - traced.rounding == (128 + (8 + 2) * 16) * MIB + 64


def scattered():
    torch.use_deterministic_algorithms(True)
    places = torch.zeros(4 * MIB, dtype=torch.int64, device="cuda")
    torch.zeros(4 * MIB, device="cuda").scatter_add_(0, places, torch.ones(4 * MIB, device="cuda"))


def test_deterministic_sums_at_places_sort_them(trace):
    """64 MiB of operands; the places four times: as they are, sorted, and numbered before and after that.

    ``_scatter_via_index_put`` (native/TensorAdvancedIndexing.cpp), ``index_put_with_sort_kernel``
    (native/cuda/Indexing.cu). CUB's storage: places below 2**22 have 22 bits, so three passes and a spare
    copy of both; tiles of 3,840 (see ``radix_sort_storage_bytes``).
    """
    traced = trace(scattered)

    each, tiles = 32 * MIB, -(-4 * MIB // 3840)
    storage = 3 * 256 * 8 + tiles * 1024 + 2 * each + 256 + 255
    assert traced.allocated - traced.rounding == 64 * MIB + 4 * each + storage


def bags():
    table = nn.EmbeddingBag(2**17, 128, mode="sum", device="cuda")
    indices = torch.zeros(2**20, dtype=torch.long, device="cuda")
    sums = table(indices, torch.arange(0, 2**20, 2**10, device="cuda"))
    sums.backward(torch.ones_like(sums))


def test_the_backward_of_bags_sums_in_groups_of_ten(trace):
    """1,048,576 indices into 131,072 rows of 512 bytes, in 1,024 bags.

    ``embedding_bag_backward_cuda_sum_avg`` (native/cuda/EmbeddingBag.cu) and
    ``embedding_backward_cuda_kernel`` (native/cuda/EmbeddingBackwardKernel.cu): a row for each whole group of
    ten, and for one begun for each row of the table; where groups begin, how many a row has and the sum.
    """
    traced = trace(bags)

    table, each = 2**17 * 512, 8 * 2**20  # the latter: a number for each index
    groups = 2**20 // 10 + 2**17
    operands = table + each + 8 * 2**10  # and where bags begin
    forward = 2**10 * 512 + each + 8 * 2**10  # sums, the bag of each index, and their sizes
    backward = 2**10 * 512 + table + 3 * each + 2 * 8 * 2**17 + 8 * groups + 512 * groups
    counts = 2 * 8  # of segments and of groups
    assert traced.allocated - traced.rounding == operands + forward + backward + counts


def inverted():
    torch.linalg.pinv(torch.randn(1024, 1024, device="cuda"))


def test_a_pseudoinverse_has_both_factors_their_product_and_the_result(trace):
    """At least, by ``linalg_pinv`` (native/LinearAlgebra.cpp): the matrix, U, Vh, Vh scaled, the product.

    The size of cuSOLVER's workspace is not known, and is listed.
    """
    traced = trace(inverted)

    assert traced.allocated >= 5 * 4 * MIB
    assert traced.report.not_modelled


class Keeping(torch.autograd.Function):
    """Its result and its node refer to each other."""

    @staticmethod
    def forward(ctx, values):
        ctx.result = values * 2
        return ctx.result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def in_cycles(is_collected):
    gc.disable()
    values = torch.zeros(4 * MIB, device="cuda", requires_grad=True)
    for _ in range(60):
        Keeping.apply(values)
        if is_collected:
            gc.collect()
    return torch.cuda.memory_allocated()


def test_tensors_in_reference_cycles_live_until_python_collects_them(trace):
    """16 MiB each: the operand, and 60 results or one."""
    assert trace(in_cycles, False).value == trace(in_cycles, False).allocated == 61 * 16 * MIB
    collected = trace(in_cycles, True)
    assert (collected.value, collected.allocated) == (16 * MIB, 2 * 16 * MIB)


def accumulated_sparse_gradients():
    table = nn.Embedding(2**16, 256, sparse=True, device="cuda")
    for _ in range(2):
        rows = table(torch.arange(2**16, device="cuda"))
        rows.backward(torch.ones_like(rows))


def test_sparse_gradients_are_accumulated_by_concatenation(trace):
    """64 MiB each: the table, the rows read and their gradient, the gradient before it, and twice their sum.

    ``s_add_out_sparse_sparse_cuda`` (native/sparse/cuda/SparseCUDATensorMath.cu) concatenates values, and
    rows' numbers in int64. The gradient before is that of the first rows, and has their numbers.
    """
    traced = trace(accumulated_sparse_gradients)

    numbers = 8 * 2**16
    assert traced.allocated == (1 + 2 + 1 + 2) * 64 * MIB + (2 + 2) * numbers
    assert traced.parameters == 64 * MIB
    assert traced.gradients == (1 + 2) * 64 * MIB + (1 + 2) * numbers


def one_step_of_sparse_adam():
    table = nn.Embedding(1024, 256, sparse=True, device="cuda")
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(torch.randint(0, 1024, (8, 16), device="cuda")).sum().backward()
    optimizer.step()


def test_sparse_adam_has_dense_states(trace):
    traced = trace(one_step_of_sparse_adam)

    assert traced.parameters == MIB
    assert traced.optimizer_states == 2 * MIB


def gru_cell(steps):
    cell = nn.GRUCell(512, 512, bias=False, device="cuda")
    hidden = torch.zeros(1024, 512, device="cuda")
    for _ in range(steps):
        hidden = cell(torch.zeros(1024, 512, device="cuda"), hidden)
    return torch.cuda.memory_allocated()


def test_a_gru_cell_saves_five_hidden_sizes_a_step(trace):
    """2 MiB each: five of its own (``GRU_WORKSPACE_MULTIPLIER`` of RNN.cu), six of gates, input and output.

    Its derivative may be differentiated again (derivatives.yaml), from the gates.
    """
    one, two = trace(gru_cell, 1).value, trace(gru_cell, 2).value

    assert two - one == (5 + 2 * 3 + 2) * 2 * MIB
