"""Whether any of many drawn numbers lies beyond a bound: what is sure is no question, what is not is read."""

import pytest
import torch
import torch.distributed as dist

from tests.devices.stand_in.unknown_data import here

MANY = 2**20


def drawn_again(count, bound, device="cuda"):
    """As ``torch.nn.init.trunc_normal_`` does, from 2.12 on."""
    rounds, values = 0, torch.empty(count, device=device).normal_(1.0, 0.5)
    while True:
        outside = (values < 1 - bound / 2) | (values > 1 + bound / 2)
        if not outside.any():
            return rounds
        rounds += 1
        values = torch.where(outside, torch.empty_like(values).normal_(1.0, 0.5), values)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize(
    ("bound", "rounds", "reads"),
    [
        # a hundred deviations away lies none
        (100, 0, 0),
        # of 1,048,576 0.27% lie beyond 3 deviations, and of these as many again: 2,831, then 7.6, which may
        # be none, and is taken to be
        (3, 1, 1),
        # beyond 2 lie 4.55%: 47,710, 2,171, 98.8, then 4.5
        (2, 3, 1),
        # beyond 5.5 0.04
        (5.5, 0, 1),
    ],
)
def test_draws_are_repeated_as_often_as_is_sure(trace, bound, rounds, reads, device):
    traced = trace(drawn_again, MANY, bound, device)

    assert traced.value == rounds
    read = f"{here(drawn_again, 5)} reads a bool value (once): taken to be False"
    assert traced.assumptions == (read,) * reads


def beyond(how):
    values = torch.empty(MANY, device="cuda").normal_()
    if how == "scaled":
        values.mul_(50)
    elif how == "a part of it":
        values[0] = 200
    elif how == "reduced":
        dist.all_reduce(values)
    elif how == "another operator before":
        torch.ones(2, device="cuda").mul(2)
    mask = values > 100
    if how == "the mask is turned":
        mask.logical_not_()
    return bool(mask.any())


@pytest.mark.parametrize(
    "how", ["scaled", "a part of it", "reduced", "another operator before", "the mask is turned"]
)
def test_nothing_is_sure_of_what_may_have_been_changed(trace, how):
    traced = trace(beyond, how, world_size=2)

    assert [text.partition(" ")[2] for text in traced.assumptions] == [
        "reads a bool value (once): taken to be False"
    ]


def replaced_in_another():
    first = torch.empty(MANY, device="cuda").normal_()
    second = torch.empty(MANY, device="cuda").normal_()
    outside = (first < -3) | (first > 3)
    second = torch.where(outside, torch.empty_like(first).normal_(), second)
    return bool(((second < -3) | (second > 3)).any())


def test_numbers_are_replaced_in_what_was_compared_alone(trace):
    assert trace(replaced_in_another).assumptions


def test_without_a_bound_in_common_nothing_is_sure(trace):
    assert trace(narrowed).assumptions


def narrowed():
    values = torch.empty(MANY, device="cuda").normal_()
    values = torch.where(values > 3, torch.empty_like(values).normal_(), values)
    return bool((values > 2.5).any())
