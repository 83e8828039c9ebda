"""The change that checkpoints a model's blocks."""

import torch
from torch import nn

from pytest_membudget.worker.server.changes import checkpointing
from tests.in_child import found_in_child


class Block(nn.Module):
    """Has no truth of whether it equals another, as tensordict's parameters, which are a module."""

    __hash__ = nn.Module.__hash__

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def __eq__(self, other):
        raise RuntimeError("no truth")

    def forward(self, x):
        return self.linear(x)


def notes_of_two_steps():
    notes = []
    model = nn.Sequential(Block(), Block(), nn.Sequential(nn.Linear(2, 2)))
    checkpointing.checkpoint_blocks(None, notes.append)  # for the rest of the process
    for _ in range(2):
        model(torch.ones(2)).sum().backward()
    return {"notes": notes}


def test_blocks_that_cannot_be_compared_are_checkpointed_once():
    found = found_in_child(notes_of_two_steps, timeout=60)

    assert found == {"notes": ["torch.utils.checkpoint for each of 2 x Block"]}


class Renamed(nn.Sequential):
    """As transformers' models, whose older method warns, which is an error in some projects."""

    def activation_checkpointing_enable(self):
        pass

    def gradient_checkpointing_enable(self):
        raise FutureWarning


def notes_of_renamed():
    notes = []
    checkpointing.checkpoint_blocks(None, notes.append)
    Renamed(Block(), Block())(torch.ones(2))
    return {"notes": notes}


def test_a_models_own_method_has_its_newer_name():
    found = found_in_child(notes_of_renamed, timeout=60)

    assert found == {"notes": ["model.activation_checkpointing_enable()"]}
