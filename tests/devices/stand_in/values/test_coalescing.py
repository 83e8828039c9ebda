"""A sparse tensor whose elements are sorted out has as many left as it can have; fewer are not known."""

import pytest
import torch

#: torch 2.11 on an H200 (benchmarks/measured/operators): a product with 100,000 elements at random places of
#: 2,048 x 2,048, of which some 98,808 are different ones, takes this with its inputs.
MEASURED_BYTES = 71_588_352
#: What an element takes at that peak: two coordinates of 8 bytes twice, its column and its value of 4 bytes.
ELEMENT_BYTES = 2 * 16 + 4 + 4


def sorted_out(elements, rows):
    indices = torch.zeros(2, elements, dtype=torch.int64, device="cuda")
    values = torch.zeros(elements, 4, device="cuda")
    sparse = torch.sparse_coo_tensor(indices, values, (rows, rows, 4), check_invariants=False)
    return sparse.coalesce()._nnz()


@pytest.mark.parametrize(
    ("elements", "rows", "left"), [(100, 50, 100), (100, 3, 9), (1, 50, 1), (0, 50, 0)], ids=str
)
def test_all_are_left_or_one_at_each_place(trace, elements, rows, left):
    traced = trace(sorted_out, elements, rows)

    assert traced.value == left
    kinds = [caveat.cause.name for caveat in traced.report.caveats]
    assert kinds.count("worst-case") == (elements > 1)


def multiplied():
    indices = torch.randint(0, 2048, (2, 100_000), device="cuda")
    sparse = torch.sparse_coo_tensor(indices, torch.randn(100_000, device="cuda"), (2048, 2048))
    torch.sparse.mm(sparse, torch.randn(2048, 2048, device="cuda"))


def test_a_product_takes_what_was_measured_and_the_elements_that_were_not_different(trace):
    more_bytes = trace(multiplied).allocated - MEASURED_BYTES

    assert 0 <= more_bytes <= (100_000 - 98_700) * ELEMENT_BYTES + 2**20  # and the rest of a block


def differentiated():
    indices = torch.randint(0, 64, (2, 1000), device="cuda")
    sparse = torch.sparse_coo_tensor(indices, torch.randn(1000, device="cuda"), (64, 64))
    dense = torch.randn(64, 8, device="cuda", requires_grad=True)
    torch.spmm(sparse, dense).sum().backward()
    return list(dense.grad.shape)


def test_a_thread_without_a_line_of_python_sorts_elements_out(trace):
    """The transpose's, for the gradient: on the engine's thread, below which no Python runs."""
    assert trace(differentiated).value == [64, 8]
