"""Which experts unknown data is taken to choose, and what routing code of every kind makes of it.

A small mixture of experts in plain PyTorch, as everyone writes it; its figures by hand.
"""

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import pytest_membudget
from pytest_membudget.caveats import GIVEN
from pytest_membudget.devices.stand_in.values.routing import chosen
from pytest_membudget.devices.stand_in.values.supposed_values import SupposedValues

SIZES = st.tuples(st.integers(1, 40), st.integers(1, 12)).flatmap(
    lambda size: st.tuples(st.just(size[0]), st.just(size[1]), st.integers(1, size[1]))
)
HOWS = st.one_of(st.sampled_from(["worst", "first", "balanced"]), st.floats(1, 20))


@settings(deadline=None)  # of a busy machine
@given(SIZES, HOWS)
def test_each_row_chooses_different_ones_that_are_there(size, how):
    rows, options, count = size

    numbers = chosen(rows, options, count, how)

    assert numbers.shape == (rows, count)
    assert all(len(set(row)) == count and set(row) <= set(range(options)) for row in numbers.tolist())


def loads(rows, options, count, how):
    return chosen(rows, options, count, how).flatten().bincount(minlength=options).tolist()


@pytest.mark.parametrize(
    ("size", "how", "expected"),
    [
        # 1 row for the two others, 3 rows for the six others
        ((64, 4, 2), "worst", [63, 63, 1, 1]),
        ((64, 8, 2), "worst", [61, 61, 1, 1, 1, 1, 1, 1]),
        ((64, 3, 1), "worst", [62, 1, 1]),
        ((4, 8, 1), "worst", [1, 1, 1, 1, 0, 0, 0, 0]),
        ((5, 2, 2), "worst", [5, 5]),
        ((64, 8, 2), "first", [64, 64, 0, 0, 0, 0, 0, 0]),
        ((64, 8, 2), "balanced", [16] * 8),
        ((6, 4, 1), "balanced", [2, 2, 1, 1]),
        # an equal share is 16; what is left goes to the others in turn
        ((64, 8, 2), 1.5, [24, 24, 8, 8, 8, 8, 24, 24]),
        ((64, 8, 2), 100.0, [64, 64, 0, 0, 0, 0, 0, 0]),
        ((64, 4, 2), 1.0, [32, 32, 32, 32]),
    ],
)
def test_how_many_choose_each(size, how, expected):
    assert loads(*size, how) == expected
    assert sum(expected) == size[0] * size[2]


T, E, K, D, H = 1024, 4, 2, 64, 256


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(D, E, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(D, H, bias=False), nn.GELU(), nn.Linear(H, D, bias=False))
            for _ in range(E)
        )
        self.known = None

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(K, dim=-1)
        if self.known is not None:
            chosen.data.copy_(self.known)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return out


def trained():
    MixtureOfExperts().cuda()(torch.randn(T, D, device="cuda")).sum().backward()


def routed(pattern):
    model, x = MixtureOfExperts().cuda(), torch.randn(T, D, device="cuda")
    model.known = torch.tensor((pattern * T)[:T])
    model(x).sum().backward()


@pytest.mark.parametrize(
    "pattern",
    [[[2, 3]], [[0, 2], [1, 3], [0, 3]], [[3, 2]] * (T - 1) + [[0, 1]], [[0, 3]] * (T - 1) + [[1, 2]]],
)
def test_no_routing_takes_more_than_the_worst(trace, pattern):
    real = trace(routed, pattern)

    assert not real.assumptions
    assert real.report.peak_bytes <= trace(trained).report.peak_bytes


def told_apart():
    chosen = torch.randn(64, 8, device="cuda").topk(2)[1]
    flat = chosen.flatten()
    valid = torch.randn(64, 1, device="cuda") > 0
    changed = chosen.clone()
    changed += 1
    ones = chosen.new_zeros((64, 8))
    ones.scatter_(1, chosen, 1)
    gates = torch.zeros(64, 8, device="cuda").scatter(
        1, chosen, torch.randn(64, 2, device="cuda").softmax(-1)
    )
    return [
        torch.bincount(flat, minlength=8).tolist(),
        torch.histc(flat, bins=8, min=0, max=7).tolist(),
        torch.histc(flat.float(), bins=8, min=0, max=7).tolist(),
        F.one_hot(chosen, 8).sum((0, 1)).tolist(),
        F.one_hot(chosen).permute(2, 1, 0).sum((1, 2)).cpu().numpy().tolist(),
        ones.sum(0).tolist(),
        (gates > 0).sum(0).tolist(),
        [len(torch.where(chosen == expert)[0]) for expert in range(8)],
        [(chosen == expert).any(-1).sum().item() for expert in range(8)],
        [len(chosen[(chosen == expert).any(-1)]) for expert in range(8)],
        torch.unique(flat, return_counts=True)[1].tolist(),
        [len(part) for part in torch.zeros(128).split(flat.sort()[0].bincount(minlength=8).tolist())],
        torch.nonzero(gates)[:, 1].bincount().tolist(),
        [len(torch.where((chosen == expert) & valid)[0]) for expert in range(8)],
        [len(torch.where(torch.logical_and(valid, chosen == expert))[0]) for expert in range(8)],
        changed.flatten().bincount(minlength=9)[1:].tolist(),
        torch.diff(flat.bincount(minlength=8).cumsum(0), prepend=chosen.new_zeros(1)).tolist(),
    ]


def test_experts_tokens_are_the_same_however_they_are_counted(trace):
    traced = trace(told_apart)

    assert traced.value == [[61, 61, 1, 1, 1, 1, 1, 1]] * len(traced.value)
    (line,) = traced.assumptions
    assert line == (
        f"test_routing.py:{told_apart.__code__.co_firstlineno + 1} chooses 2 of 8 by unknown data with "
        "aten.topk.default, and sizes follow (once): taken to be the first 2 in all rows but 3 of 64, which "
        "choose the others: the worst case (pytest_membudget.assume(routing=...) changes that)"
    )


def top_one(told):
    with pytest_membudget.assume(routing=told):
        scores = torch.randn(64, 4, device="cuda")
        ways = [scores.argmax(-1), scores.max(dim=1).indices, scores.t().argmax(0), scores.topk(1)[1][:, 0]]
        return [torch.bincount(way, minlength=4).tolist() for way in ways]


@pytest.mark.parametrize(("told", "counts"), [("balanced", [16] * 4), ("worst", [61, 1, 1, 1])])
def test_top_one_routing(trace, told, counts):
    assert trace(top_one, told).value == [counts] * 4


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("balanced", "each as often as any other"),
        ("worst", "the first in all rows but 3 of 64, which choose the others"),
        (1.5, "the first, and the last, in 1.5 times an equal share of the rows each"),
    ],
)
def test_a_routing_that_is_assumed_is_not_varied(trace, given, taken):
    traced = trace(top_one, given)

    assert traced.unknown == []
    assert {one.cause for one in traced.report.caveats if "chooses" in one.text} == {GIVEN}
    assert all(line.endswith(f"taken to be {taken}, by assume()") for line in traced.assumptions)


def sampled():
    logits = torch.randn(2, 512, device="cuda")
    token = logits.argmax(-1)
    return [token.tolist(), token[0].item(), bool(token[0] == 0), int(logits.topk(5)[1][1, 3])]


def test_a_token_that_is_read_itself_is_as_unknown_as_ever(trace):
    """Whoever compares it with an end of sequence goes on."""
    traced = trace(sampled)

    assert traced.value == [[1, 1], 1, False, 1]
    assert not any("chooses" in line for line in traced.assumptions)


def known():
    return torch.bincount(torch.tensor([[3.0, 1], [2, 5]], device="cuda").argmax(-1)).tolist()


def test_what_follows_from_the_program_is_computed(trace):
    traced = trace(known)

    assert traced.value == [1, 1]
    assert not traced.assumptions


def checkpointed(told):
    model, x = MixtureOfExperts().cuda(), torch.randn(T, D, device="cuda", requires_grad=True)
    with pytest_membudget.assume(routing=told):
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()
    return model.gate.weight.grad is not None


@pytest.mark.parametrize("told", ["worst", "balanced"])
def test_a_checkpoint_recomputes_the_same_routing(trace, told):
    assert trace(checkpointed, told).value is True


def freed():
    for _ in range(4):
        chosen = torch.randn(4096, 64, device="cuda").topk(8)[1]
        F.one_hot(chosen, 64).sum().item()
        del chosen
    (supposed,) = (one for one in gc.get_objects() if isinstance(one, SupposedValues))
    return len(supposed.keys)


def test_values_are_let_go_with_their_tensors(trace):
    assert trace(freed).value == 0


def hit_experts(rows):
    chosen = torch.randn(rows, 8, device="cuda").topk(2)[1]
    hit = (F.one_hot(chosen, 9).permute(2, 1, 0).sum((-1, -2)) > 0).nonzero()
    found = []
    for expert in hit:
        found.append([int(expert[0]), bool(expert[0] == 8)])
    return found


@pytest.mark.parametrize(("rows", "hit"), [(64, range(8)), (2, range(4)), (1, range(2))])
def test_a_loop_over_the_experts_that_are_hit(trace, rows, hit):
    """As transformers 5 writes it. Each one, if there are tokens enough."""
    assert trace(hit_experts, rows).value == [[expert, False] for expert in hit]
