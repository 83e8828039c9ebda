"""Shapes that depend on data: right where the data follows from the program."""

import torch


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


def test_shapes_that_depend_on_known_data_are_right(trace):
    traced = trace(known_shapes, "cuda")

    assert traced.value == known_shapes("cpu")
    assert not traced.report.assumptions


def selected_by_a_large_mask():
    x = torch.randn(4096, 1024, device="cuda", requires_grad=True)
    selected = x[torch.ones(4096, 1024, dtype=torch.bool, device="cuda")]
    selected.sum().backward()
    return list(selected.shape), list(x.grad.shape)


def test_a_full_mask_selects_everything_at_any_size(trace):
    """4 Mi elements: 16 MiB of them, 4 of the mask, 16 selected.

    Backward puts 16 MiB of gradients, written out, into another 16, by places: 32 MiB each, four times while
    they are sorted, and what CUB takes for that (see ``test_peaks_by_hand``).
    """
    traced = trace(selected_by_a_large_mask)

    storage = 3 * 256 * 8 + -(-4 * 2**20 // 3840) * 1024 + 2 * 32 * 2**20 + 256 + 255
    assert traced.value == [[4096 * 1024], [4096, 1024]]
    assert traced.allocated - traced.rounding == (4 * 16 + 4 + 4 * 32) * 2**20 + storage + 2 * 4
