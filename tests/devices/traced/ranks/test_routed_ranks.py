"""Experts on several ranks: what ranks tell each other of their routing, and the rows that follow."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import pytest_membudget


def exchanged(how, told):
    size, rank = dist.get_world_size(), dist.get_rank()
    tokens = torch.randn(64, 8, device="cuda")
    with pytest_membudget.assume(routing=told):
        chosen = torch.randn(64, 4, device="cuda").argmax(-1)
        counts = torch.bincount(chosen, minlength=4)
        if how == "functional":
            theirs = functional.wait_tensor(
                functional.all_to_all_single(counts, None, None, dist.group.WORLD)
            )
        else:
            theirs = torch.empty_like(counts)
            dist.all_to_all_single(theirs, counts)
        sent = counts.view(size, -1).sum(1).tolist()
        received = theirs.view(size, -1).sum(1).to("cpu").tolist()
        rows = torch.empty(sum(received), 8, device="cuda")
        dist.all_to_all_single(rows, tokens[chosen.argsort()], received, sent)
        own = theirs.view(size, -1).sum(0).tolist()
    return [rank, sent, received, own, len(rows)]


@pytest.mark.parametrize("how", ["c10d", "functional"])
@pytest.mark.parametrize(
    ("told", "rank", "sent", "received", "own"),
    [
        # 61 of 64 choose the first of 4, on each of two ranks; the first two experts are rank 0's
        ("worst", 0, [62, 2], [62, 62], [122, 2]),
        ("worst", 1, [62, 2], [2, 2], [2, 2]),
        ("balanced", 1, [32, 32], [32, 32], [32, 32]),
    ],
)
def test_every_rank_is_taken_to_send_as_this_one(trace, how, told, rank, sent, received, own):
    traced = trace(exchanged, how, told, rank=rank, world_size=2)

    assert traced.value == [rank, sent, received, own, sum(received)]
    assert any("chooses 1 of 4" in line for line in traced.report.assumptions)
    assert not any("reads" in line for line in traced.report.assumptions)
