"""Shapes that depend on data: right where the data follows from the program, refused where it does not."""

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


def selects(how):
    x = torch.randn(4, device="cuda")
    drawn = torch.rand(1, device="cuda") < 0.9
    return {
        "mask": lambda: x[x > 0],
        "nonzero": lambda: (x > 0).nonzero(),
        "masked_select": lambda: x.masked_select(x > 0),
        "unique": lambda: x.unique(),
        "repeat_interleave": lambda: x.repeat_interleave(torch.randint(1, 3, (4,), device="cuda")),
        "a draw": lambda: x[:1][drawn],
    }[how]()


def refused(how):
    try:
        selects(how)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("how", ["mask", "nonzero", "masked_select", "unique", "repeat_interleave", "a draw"])
def test_a_shape_that_depends_on_unknown_data_is_refused(trace, how):
    assert trace(refused, how).value == "DynamicOutputShapeException"
