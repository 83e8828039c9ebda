"""Sparse tensors on the stand-in: layouts, products and sums; what is not known of them is named."""

import pytest
import torch
from allocations import not_modelled, peak_of

ROWS = 500
SPECIFIED = 1_000
DENSE = ROWS * ROWS * 4
#: One CSR matrix: offsets, columns (int64) and values (float32).
CSR = (ROWS + 1) * 8 + SPECIFIED * 8 + SPECIFIED * 4
#: The offsets and columns again, in 32 bits, as SpGEMM wants them.
INDICES_32 = (ROWS + 1) * 4 + SPECIFIED * 4
#: The least that a buffer takes: a block of PyTorch's allocator (cusparse_sizes.c).
LEAST = 512

#: What an operator requests (SparseBlasImpl.cpp, SparseCsrTensorMath.cpp, SparseCUDATensorMath.cu, of 2.15),
#: how many elements its sparse result has, and what cuSPARSE was asked for that is not modelled.
OPERATORS = {
    # addmm of zeros: both are dense (_sparse_csr_mm)
    "csr @ dense": (2 * DENSE + LEAST, None, ["cusparseSpMM_bufferSize"]),
    "csr @ vector": (ROWS * 4 + LEAST, None, ["cusparseSpMV_bufferSize"]),
    # a copy of the sparse operand is the result
    "sampled_addmm": (CSR + LEAST, SPECIFIED, ["cusparseSDDMM_bufferSize"]),
    # at most 1,000 elements meet at most 500 of a row each: the result may be full. Both operands' indices;
    # the offsets of an empty operand and of the result; two buffers, the second as large as the product's
    # columns and values; those of the result.
    "csr @ csr": (
        2 * INDICES_32 + (ROWS + 1) * (8 + 4) + LEAST + 2 * ROWS * ROWS * (4 + 4),
        ROWS * ROWS,
        ["cusparseSpGEMM_compute", "cusparseSpGEMM_workEstimation"],
    ),
    # the result, and the position of each element in it (int64)
    "coo.to_dense": (DENSE + SPECIFIED * 8, None, []),
    # concatenated: two coordinates (int64) and the value of each element of both
    "coo + coo": (2 * SPECIFIED * (2 * 8 + 4), 2 * SPECIFIED, []),
}


def csr(requires_grad=False):
    offsets = torch.zeros(ROWS + 1, dtype=torch.int64, device="cuda")
    columns = torch.zeros(SPECIFIED, dtype=torch.int64, device="cuda")
    values = torch.zeros(SPECIFIED, device="cuda")
    return torch.sparse_csr_tensor(
        offsets, columns, values, (ROWS, ROWS), requires_grad=requires_grad, check_invariants=False
    )


def coo():
    indices = torch.zeros(2, SPECIFIED, dtype=torch.int64, device="cuda")
    values = torch.zeros(SPECIFIED, device="cuda")
    return torch.sparse_coo_tensor(indices, values, (ROWS, ROWS), check_invariants=False)


def operator(name):
    a, b, c = csr(), csr(), coo()
    dense = torch.zeros(ROWS, ROWS, device="cuda")
    run = {
        "csr @ dense": lambda: a @ dense,
        "csr @ vector": lambda: a @ dense[0],
        "sampled_addmm": lambda: torch.sparse.sampled_addmm(a, dense, dense),
        "csr @ csr": lambda: a @ b,
        "coo.to_dense": lambda: c.to_dense(),
        "coo + coo": lambda: c + c,
    }[name]
    kept = []
    peak_bytes = peak_of(lambda: kept.append(run()))
    count = None if kept[0].layout == torch.strided else kept[0]._nnz()
    return peak_bytes, count, not_modelled()


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_takes_its_result_and_the_buffers_that_stand_in(stand_in, name):
    expected_bytes, expected_count, asked = OPERATORS[name]

    peak_bytes, count, names = stand_in(operator, name, not_modelled=asked)

    assert names == asked
    assert count == expected_count
    assert peak_bytes == expected_bytes


def moved():
    """A small sparse tensor of the host, moved; conversions of a matrix without any data-dependent shape."""
    host = torch.eye(3).to_sparse()
    moved = host.cuda()
    a = csr()
    return [
        moved._nnz(),
        moved.values().device.type,
        list(a.to_sparse_csc().shape),
        a.to_sparse_csc()._nnz(),
        list(a.t().shape),
    ]


def test_layouts_are_converted_and_moved(stand_in):
    assert stand_in(moved) == [3, "cuda", [ROWS, ROWS], SPECIFIED, [ROWS, ROWS]]


def sums_and_gradients():
    total = csr() + csr()
    a = csr(requires_grad=True)
    dense = torch.zeros(ROWS, ROWS, device="cuda", requires_grad=True)
    (a @ dense).sum().backward()
    return total._nnz(), list(dense.grad.shape), list(a.grad.shape), not_modelled()


def test_a_sum_has_at_most_the_elements_of_both_and_a_product_has_gradients(stand_in):
    asked = ["cusparseSDDMM_bufferSize", "cusparseScsrgeam2_bufferSizeExt"]
    asked += ["cusparseSpMM_bufferSize", "cusparseXcsrgeam2Nnz"]

    elements, *gradients, names = stand_in(sums_and_gradients, not_modelled=asked)

    assert elements == 2 * SPECIFIED
    assert gradients == [[ROWS, ROWS], [ROWS, ROWS]]
    assert set(names) <= set(asked)
    assert "cusparseXcsrgeam2Nnz" in names


def compressed():
    dense = torch.zeros(128, 128, device="cuda", dtype=torch.float16)
    packed = torch._cslt_compress(dense)
    product = torch._cslt_sparse_mm(packed, dense)
    return packed.numel() * packed.element_size(), list(product.shape), not_modelled()


def test_two_of_four_elements_take_nine_sixteenths(stand_in):
    asked = ["cusparseLtMatmulGetWorkspace", "cusparseLtSpMMACompressedSize2"]

    packed_bytes, shape, names = stand_in(compressed, not_modelled=asked)

    assert packed_bytes == 128 * 128 * 2 * 9 // 16  # cuSPARSELtOps.cpp, compression_factor
    assert shape == [128, 128]
    assert names == asked
