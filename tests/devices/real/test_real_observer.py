"""A backward says which module's part it runs; on the CPU, where nodes and hooks are the same."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_membudget.devices.real.observer import RunObserver
from pytest_membudget.tracking.record import Phase
from pytest_membudget.tracking.running_code.source import users_source


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.second(self.first(x).relu())


def modules_of_backward(run):
    """The modules of a backward's states, in order, each once in a row."""
    observer = RunObserver(lambda text: None, users_source())
    observer.install()
    try:
        run()
    finally:
        observer.remove()
    found = [state.module for state in observer.log.states if state.phase is Phase.BACKWARD]
    return [module for place, module in enumerate(found) if place == 0 or module != found[place - 1]]


def test_each_part_is_that_of_the_module_that_made_it_from_the_last_to_the_first():
    block = Block()

    def run():
        block(torch.ones(2, 4, requires_grad=True)).sum().backward()

    # the block's own sum, the second layer, the relu between them, the first layer; then the engine has ended
    assert modules_of_backward(run)[:5] == [None, "Block", "second", "Block", "first"]


def test_what_lies_between_modules_is_of_the_one_around():
    model = nn.Sequential(Block(), Block())

    def run():
        model(torch.ones(2, 4)).sum().backward()

    parts = modules_of_backward(run)
    assert parts.index("1.second") < parts.index("1.first") < parts.index("0.second") < parts.index("0.first")
    assert "1" in parts


def test_after_a_recomputation_its_module_goes_on():
    block = Block()

    def run():
        x = torch.ones(2, 4, requires_grad=True)
        checkpoint(block, x, use_reentrant=False).sum().backward()

    parts = modules_of_backward(run)
    assert {"first", "second"} <= set(parts)


def test_gradients_are_what_they_are_without():
    torch.manual_seed(0)
    block, x = Block(), torch.ones(2, 4)
    block(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in block.parameters()]
    block.zero_grad()

    modules_of_backward(lambda: block(x).sum().backward())

    assert all(torch.equal(one.grad, other) for one, other in zip(block.parameters(), expected, strict=True))


def test_without_gradients_no_node_is_reported():
    def run():
        with torch.no_grad():
            Block()(torch.ones(2, 4))

    assert modules_of_backward(run) == []
