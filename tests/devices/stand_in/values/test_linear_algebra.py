"""Decompositions check what they have computed: nothing was, and their memory was another's before."""

import torch


def decomposed():
    for value in (7, 3):  # left behind in the memory that the checks read
        filler = torch.full((4000,), value, device="cuda")
        del filler
    square, wide = torch.randn(5, 5, device="cuda"), torch.randn(2, 5, device="cuda")
    results = [
        torch.linalg.svdvals(wide), torch.linalg.pinv(square), torch.linalg.eigvalsh(square),
        torch.linalg.eig(square)[0], torch.linalg.inv(square), torch.linalg.solve(square, square),
    ]  # fmt: skip
    return [list(result.shape) for result in results]


def test_their_checks_find_nothing(trace):
    assert trace(decomposed).value == [[2], [5, 5], [5], [5], [5, 5], [5, 5]]


def looked_up():
    """``isin`` of floats sorts both and keeps what is different of each: at most all."""
    return torch.isin(torch.randn(5, device="cuda"), torch.randn(20, device="cuda")).shape[0]


def test_isin_of_unknown_numbers_has_a_bound(trace):
    traced = trace(looked_up)

    assert traced.value == 5
    assert any("all different, the worst case" in line for line in traced.report.assumptions)


def exponentials():
    """Left in the memory that the scales get: so many squarings would not end."""
    filler = torch.full((4000,), 1e18, device="cuda")
    del filler
    matrices = torch.randn(2, 5, 5).cuda()
    return list(torch.matrix_exp(matrices).shape)


def test_the_scales_of_matrix_exponentials_are_large_and_listed(trace):
    """``compute_T18_scale_square`` (native/LinearAlgebra.cpp, 2.15) squares as often as it has read."""
    traced = trace(exponentials)

    assert traced.value == [2, 5, 5]
    assert any(
        "reads an int64 value" in line and "taken to be 4" in line for line in traced.report.assumptions
    )


def losses_without_a_phase():
    matrix = torch.randn(5, 5, dtype=torch.complex64).cuda().requires_grad_()
    for vectors in (
        torch.linalg.eig(matrix).eigenvectors, torch.linalg.eigh(matrix).eigenvectors,
        torch.linalg.svd(matrix).U,
    ):  # fmt: skip
        vectors.abs().sum().backward()
    return list(matrix.grad.shape)


def test_backward_of_complex_vectors_finds_the_loss_independent_of_their_phase(trace):
    """``linalg_eig_backward`` and ``svd_backward`` raise where ``allclose`` of imaginary parts is false."""
    assert trace(losses_without_a_phase).value == [5, 5]
