"""A torch whose figures are not those known by hand is detected before any figure is given."""

import importlib
import os

import pytest
import torch

from pytest_membudget.devices.stand_in.device import StandInDevice
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.errors import UnsupportedTorch
from pytest_membudget.hardware.gpus import find_gpu


def checked(break_it):
    globals()[break_it]()
    device = StandInDevice(find_gpu("A100-80GB"))
    device.install()
    try:
        device.self_check()
    except UnsupportedTorch as error:
        return str(error)


def nothing():
    pass


def foreach_default():
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        importlib.import_module(name)._foreach_supported_types.clear()


def optimizer_hooks():
    """A step whose hooks are not called."""
    importlib.import_module("torch.optim.optimizer").Optimizer.profile_hook_step = staticmethod(
        lambda step: step
    )


def deaths():
    """Something keeps the square roots of each step."""
    kept, run = [], torch._foreach_sqrt

    def keep(*args):
        kept.append(run(*args))
        return kept[-1]

    torch._foreach_sqrt = keep


def test_the_installed_torch_is_as_it_was_made_for(stand_in):
    assert stand_in(checked, "nothing", unlimited=True) is None


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        ("foreach_default", "temporaries 201326592 instead of 268435456"),
        ("optimizer_hooks", "optimizer_states 0 instead of 536870912"),
        ("deaths", "temporaries 536870912 instead of 268435456"),
    ],
)
def test_a_torch_that_behaves_otherwise_is_detected(stand_in, break_it, text):
    message = stand_in(checked, break_it, unlimited=True)

    assert message is not None
    version = workers_torch(os.environ).version
    assert message.startswith(f"torch {version} is not a torch that the stand-in was made for")
    assert text in message
