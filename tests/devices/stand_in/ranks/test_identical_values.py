"""Whole numbers that a collective gives if every rank has the same: no further run gives others."""

import pytest
import torch
import torch.distributed as dist

from tests.devices.stand_in.unknown_data import here


def reduced(how):
    tokens = torch.tensor(5, device="cuda")
    if how == "drawn":
        tokens += torch.randint(3, (), device="cuda")
    elif how == "flag":
        tokens = tokens > 4
    elif how == "fraction":
        tokens = tokens / 2
    dist.all_reduce(tokens, op=dist.ReduceOp.MAX)
    if how == "changed by a draw":
        tokens += torch.randint(3, (), device="cuda")
    elif how == "reduced twice":
        dist.all_reduce(tokens, op=dist.ReduceOp.MAX)
    return tokens.item()


@pytest.mark.parametrize(
    ("how", "value", "reads"),
    [
        ("", 5, []),
        ("reduced twice", 5, []),
        ("drawn", 7, ["an int64 value (once): taken to be 7"]),
        ("changed by a draw", 7, ["an int64 value (once): taken to be 7"]),
        # a flag may hold on another rank alone: that of overflow is a number in fp32
        ("fraction", 2.5, ["a float32 value (once): taken to be 2.5"]),
        ("flag", True, ["a bool value (once): taken to be True"]),
    ],
)
def test_a_whole_number_that_all_ranks_have_is_not_varied(trace, how, value, reads):
    traced = trace(reduced, how, world_size=2)

    assert traced.value == value
    assert traced.assumptions == tuple(f"{here(reduced, 13)} reads {read}" for read in reads)
    assert bool(traced.unknown) == bool(reads)
