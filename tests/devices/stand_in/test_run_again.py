"""What runs again in a backward is recorded, of modules and functions; and the dtype of modules' results."""

import inspect
import os

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(x)))


class Model(nn.Module):
    def __init__(self, kept, of_function=False, reentrant=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.kept, self.of_function, self.reentrant = kept, of_function, reentrant

    def forward(self, x):
        for index, block in enumerate(self.blocks):
            x = block(x) if index < self.kept else checkpoint(block, x, use_reentrant=self.reentrant)
        return checkpoint(squared, x, use_reentrant=False) if self.of_function else squared(x)


def squared(x):
    return x.exp().square()


def step(*given):
    model = Model(*given).cuda()
    for _ in range(2):
        model(torch.ones(8, 64, device="cuda", requires_grad=True)).sum().backward()


def second_derivative():
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    [gradient] = torch.autograd.grad(squared(x).sum(), x, create_graph=True)
    gradient.square().sum().backward()


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return helper(x)

    @staticmethod
    def backward(ctx, gradient):
        [x] = ctx.saved_tensors
        return helper(x) * gradient


def helper(x):
    return x * x


def own_backward():
    Squared.apply(torch.ones(64, 64, device="cuda", requires_grad=True)).sum().backward()


CASES = {
    "none": (step, [4], {}),
    "all": (step, [0], {"blocks.*": 1.0}),
    "all, reentrant": (step, [0, False, True], {"blocks.*": 1.0}),
    "half": (step, [2], {"blocks.*": 0.5}),
    "a function": (step, [4, True], {"squared": 1.0}),
    "a second derivative": (second_derivative, [], {}),
    "a backward in Python that calls what the forward does": (own_backward, [], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_share_that_runs_again(trace, case):
    body, given, expected = CASES[case]
    _, first = inspect.getsourcelines(squared)
    function = f"{os.path.basename(__file__)}:{first + 1}"
    found = trace(body, *given).report.recomputed

    assert set(found.values()) == set(expected.values())
    assert all(name.startswith("blocks.*") or name == function for name in found)
    assert (function in found) == ("squared" in expected)


def block_under(autocast):
    model = Block().cuda()
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        loss = model(torch.ones(4096, 64, device="cuda")).sum()
    loss.backward()


@pytest.mark.parametrize(("autocast", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_the_dtype_of_what_a_module_returns_and_of_its_parameters(trace, autocast, dtype):
    report = trace(block_under, autocast).report

    rows = [*report.holders, *(row for phase in report.phases for row in phase.holders)]
    known = {(row.component, row.module): row.dtype for row in rows if row.dtype}
    assert known["parameters", "up.weight"] == "float32"
    assert known["activations", "up"] == dtype
