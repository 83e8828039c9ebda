"""Draws of random numbers: the same in every run, likely, and listed where they are read."""

import pytest
import torch
from torch import nn

from pytest_membudget.devices.stand_in.host.draws import HostDraws
from pytest_membudget.devices.stand_in.values.variants import VARIANT


def drawn():
    skipped = [bool(torch.rand((), device="cuda") < 0.1) for _ in range(3)]
    return [
        skipped, bool(torch.rand(1, device="cuda") > 0.1), torch.randperm(3, device="cuda").tolist(),
        torch.randint(5, 9, (2,), device="cuda").tolist(), torch.randint(0, 1, (1,), device="cuda").item(),
        torch.multinomial(torch.ones(4, device="cuda"), 2).tolist(),
        torch.empty(1, device="cuda").uniform_(2, 4).item(),
        torch.randint(100, (2, 3), device="cuda").max().item(),
    ]  # fmt: skip


def test_draws_are_within_their_range_and_are_listed(trace):
    """Every run of a test gives the same estimate: what is likely happens, and nothing is shuffled.

    Whole numbers are the largest of their range, since shapes are made of them.
    """
    traced = trace(drawn)

    assert traced.value == [[False] * 3, True, [0, 1, 2], [8, 8], 0, [0, 1], 2 + 2 * (0.5 + 2**-8), 99]
    first = drawn.__code__.co_firstlineno
    lines = {int(text.split()[0].rpartition(":")[2]) - first for text in traced.assumptions}
    assert lines == {1, 3, 4, 5, 6, 7}


@pytest.mark.parametrize(
    ("how", "count", "taken"),
    [
        ("permutation", 4, "what its draws of random numbers are taken to give"),
        ("draws", 10, "changes that); what the card draws is known where the host draws it, with a seed"),
    ],
)
def test_a_permutation_has_a_known_count_and_single_draws_do_not(trace, how, count, taken):
    traced = trace(selected, how)

    assert traced.value == count
    assert taken in traced.assumptions[0]


def selected(how):
    x = torch.randn(10, device="cuda")
    if how == "permutation":
        return len(x[torch.randperm(10, device="cuda") < 4])
    return len(x[torch.randint(5, (10,), device="cuda") < 4])


def sized_by_draws():
    counts = torch.randint(1, 5, (64,), device="cuda")
    return [len(torch.bincount(counts)), len(torch.ones(64, device="cuda").repeat_interleave(counts))]


def test_sizes_without_another_bound_follow_from_the_largest_numbers(trace):
    traced = trace(sized_by_draws)

    assert traced.value == [1 + 4, 64 * 4]
    taken = "taken to be what its draws of random numbers are taken to give"
    assert [taken in one for one in traced.assumptions] == [True, True]


def rounds_until_all_are_large():
    VARIANT.begin(1, ())
    rounds, found = 0, ()
    while len(found) < 4:
        numbers = torch.randint(1000, (4,), device="cuda")
        rounds, found = rounds + 1, numbers[numbers > 990]
    return rounds


def test_a_loop_that_waits_for_draws_which_are_alike_ends(trace):
    """Those that are drawn at once lie all over their range, in the variant in which they differ."""
    assert trace(rounds_until_all_are_large).value == 1000 + 1


def trained_with_layer_drop():
    layers = nn.ModuleList(nn.Linear(64, 64, bias=False, device="cuda") for _ in range(4))
    hidden = torch.randn(1, 64, device="cuda")
    for layer in layers:
        if torch.rand((), device="cuda") < 0.2:
            continue
        hidden = layer(hidden)
    hidden.sum().backward()
    return sum(layer.weight.grad is not None for layer in layers)


def test_layer_drop_drops_no_layer(trace):
    traced = trace(trained_with_layer_drop)

    place = f"test_draws.py:{trained_with_layer_drop.__code__.co_firstlineno + 4}"
    assert traced.value == 4
    assert traced.assumptions == (f"{place} reads a bool value (4 times): taken to be False",)


def initialised(name):
    weight = torch.empty(16, 16, device="cuda")
    getattr(nn.init, name)(weight, **({"sparsity": 0.1} if name == "sparse_" else {}))


def truncated_by_rejection(name):
    values = torch.randn(100, device="cuda")
    while (outside := values.abs() > 2).any():
        values = torch.where(outside, torch.randn_like(values), values)


def dropped_out(name):
    x = torch.randn(2, 3, 4, 4, device="cuda")
    for layer in (
        nn.Dropout(0.1),
        nn.Dropout2d(0.1),
        nn.AlphaDropout(0.1),
        nn.FeatureAlphaDropout(0.1),
        nn.RReLU(),
    ):
        layer(x)


def sampled(name):
    """A policy's parameters are what its network gives: nobody knows that they are valid."""
    normal = torch.distributions.Normal(torch.randn(3, device="cuda"), torch.rand(3, device="cuda"))
    normal.log_prob(normal.rsample()).sum()
    categorical = torch.distributions.Categorical(logits=torch.randn(2, 5, device="cuda"))
    categorical.log_prob(categorical.sample())


INITIALISED = ["uniform_", "trunc_normal_", "kaiming_uniform_", "orthogonal_", "sparse_"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        *((initialised, name) for name in INITIALISED),
        (truncated_by_rejection, ""),
        (dropped_out, ""),
        (sampled, ""),
    ],
)
def test_what_draws_runs_and_comes_to_an_end(trace, body, name):
    trace(body, name)


def drawn_by_deviations():
    mean, deviation = torch.randn(4, device="cuda"), torch.randn(4, device="cuda").exp()
    return [
        tuple(one.shape)
        for one in (
            torch.normal(mean, deviation),
            torch.normal(0.0, deviation),
            torch.distributions.Normal(mean, 1.0).sample((3,)),
        )
    ]


def test_deviations_of_a_normal_distribution_are_valid_as_those_of_a_healthy_run_are(trace):
    """``normal`` raises where the least of them is not above zero, which it reads."""
    traced = trace(drawn_by_deviations)

    assert (traced.value, traced.assumptions) == ([[4], [4], [3, 4]], ())


def seeds_of_the_system():
    found = []
    for seed in (5, 5, 6):
        draws = HostDraws()
        draws.begin(seed)
        generator = torch.Generator()
        found.append([generator.seed(), generator.initial_seed(), draws.drawn()])
    return found


def test_the_seed_that_torch_asks_the_system_for_is_the_same_in_every_run(stand_in):
    """``Generator.seed`` asks in C++, so that the method itself is replaced, in the dictionary of its type.

    Where a torch makes that type otherwise (``gc.get_referents`` has it no more), seeds are others in every
    session, and no figure that depends on them is named.
    """
    first, again, other = stand_in(seeds_of_the_system)

    assert first == again
    assert first[0] == first[1] != other[0]
    assert first[2] == ["random numbers that the host draws (generators without a seed)"]
