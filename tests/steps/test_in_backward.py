"""optimizer_in_backward makes the ordinary step's parameters, and frees each gradient as it comes."""

from copy import deepcopy

import pytest
import torch
from plain_torch import assert_equal, parameters_of
from tiny_models import VOCABULARY, WIDTH, Regressor
from torch import nn

from pytest_membudget.steps import optimizer_in_backward, train_step


@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.Adam, {"lr": 0.1}),
        (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.5}),
    ],
)
def test_the_step_in_backward_equals_the_ordinary_step_exactly(data, optimizer_class, options):
    model = Regressor()
    plain = deepcopy(model)
    optimizer = optimizer_class(plain.parameters(), **options)

    optimizer_in_backward(model, optimizer_class, **options)
    losses = [train_step(model, None, data) for _ in range(3)]

    assert_equal(losses, [train_step(plain, optimizer, data) for _ in range(3)])
    assert_equal(parameters_of(model), parameters_of(plain))


def test_gradients_are_freed_as_they_come(data):
    model = Regressor()
    alive = []

    class Counting(torch.optim.SGD):
        def step(self, closure=None):
            alive.append(sum(parameter.grad is not None for parameter in model.parameters()))
            super().step(closure)

    optimizer_in_backward(model, Counting, lr=0.1)
    model(*data).backward()

    # A linear layer's weight and bias come from one node of the graph, so one may wait for the other.
    assert len(alive) == 4
    assert max(alive) <= 2
    assert all(parameter.grad is None for parameter in model.parameters())


def test_frozen_parameters_are_skipped(data):
    model = Regressor()
    model.layers[0].requires_grad_(False)
    frozen = parameters_of(model.layers[0])

    handle = optimizer_in_backward(model, torch.optim.SGD, lr=0.1)
    model(*data).backward()

    assert set(handle.optimizers) == set(model.layers[2].parameters())
    assert_equal(parameters_of(model.layers[0]), frozen)


def test_a_shared_parameter_has_one_optimizer_and_one_step(tokens):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, WIDTH)

        def forward(self, ids):
            return (self.table(ids) @ self.table.weight.T).logsumexp(-1).mean()

    model = Tied()
    plain = deepcopy(model)

    handle = optimizer_in_backward([model.table.weight, model.table.weight], torch.optim.SGD, lr=0.1)
    train_step(model, None, tokens)

    train_step(plain, torch.optim.SGD(plain.parameters(), lr=0.1), tokens)
    assert len(handle.optimizers) == len(handle.handles) == 1
    assert_equal(parameters_of(model), parameters_of(plain))


def test_the_learning_rate_is_set_in_the_optimizers(data):
    model = Regressor()
    before = parameters_of(model)
    handle = optimizer_in_backward(model, torch.optim.SGD, lr=0.1)

    for optimizer in handle.optimizers.values():
        optimizer.param_groups[0]["lr"] = 0.0
    model(*data).backward()

    assert_equal(parameters_of(model), before)


def test_removed_hooks_leave_gradients_and_parameters_alone(data):
    model = Regressor()
    before = parameters_of(model)

    optimizer_in_backward(model, torch.optim.SGD, lr=0.1).remove()
    model(*data).backward()

    assert_equal(parameters_of(model), before)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_nothing_to_train_is_refused():
    with pytest.raises(ValueError, match="no parameter requires a gradient: unfreeze"):
        optimizer_in_backward(Regressor().requires_grad_(False), torch.optim.SGD, lr=0.1)
