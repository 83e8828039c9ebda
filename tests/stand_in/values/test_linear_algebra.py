"""Decompositions check what they have computed: nothing was, and their memory was another's before."""

import torch

_SIZES = tuple(
    f"cusolverDn{name}_bufferSize"
    for name in (
        "SgesvdjBatched", "Sgetrf", "Xpotrf", "XsyevBatched", "Xsyevd", "Xgeev", "Xgeqrf", "Sorgqr", "Sormqr",
        "Sgesvdj", "Xgesvd",
    )
)  # fmt: skip


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


def test_their_checks_find_nothing(stand_in):
    from running import run_following

    answer = stand_in(run_following, __file__, "decomposed", (), unlimited=True, not_modelled=_SIZES)

    assert answer["value"] == [[2], [5, 5], [5], [5], [5, 5], [5, 5]]


def looked_up():
    """``isin`` of floats sorts both and keeps what is different of each: at most all."""
    return torch.isin(torch.randn(5, device="cuda"), torch.randn(20, device="cuda")).shape[0]


def test_isin_of_unknown_numbers_has_a_bound(trace):
    traced = trace(looked_up)

    assert traced.value == 5
    assert any("all different, the worst case" in line for line in traced.report.assumptions)
