"""Shapes that depend on data: right where the data follows from the program."""

import pytest
import torch

DEVICES = ["cpu", "cuda"]


def known_shapes(device):
    x = torch.zeros(4, 6, device=device)
    rows = torch.tensor([True, False, True, True], device=device)
    counts = torch.tensor([1, 2, 3], device=device)
    return [
        list(x[rows].shape),
        list(x[torch.ones(4, 6, dtype=torch.bool, device=device).tril()].shape),
        list(x[:, :4][:, rows].shape),
        list(torch.masked_select(x, rows[:, None]).shape),
        torch.arange(4, device=device)[rows].tolist(),
        [part.tolist() for part in torch.where(rows)],
        rows.nonzero().tolist(),
        torch.unique(counts[[0, 0, 2]]).tolist(),
        torch.unique_consecutive(counts).tolist(),
        torch.repeat_interleave(counts).tolist(),
        list(x[:3].repeat_interleave(counts, dim=0).shape),
        [list(part.shape) for part in torch.zeros(6, device=device).split(counts.tolist())],
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_shapes_that_depend_on_known_data_are_right(trace, device):
    traced = trace(known_shapes, device)

    assert traced.value == known_shapes("cpu")
    assert not traced.report.assumptions


def selected_by_a_large_mask():
    x = torch.randn(4096, 1024, device="cuda", requires_grad=True)
    selected = x[torch.ones(4096, 1024, dtype=torch.bool, device="cuda")]
    selected.sum().backward()
    return list(selected.shape), list(x.grad.shape)


def test_a_full_mask_selects_everything_at_any_size(trace):
    """4 Mi elements: 16 MiB of them, and two indices of 8 bytes an element while they are gathered."""
    traced = trace(selected_by_a_large_mask)

    assert traced.value == [[4096 * 1024], [4096, 1024]]
    assert traced.allocated == (16 + 4 + 2 * 32 + 16) * 2**20
