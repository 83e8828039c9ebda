"""A torch whose figures are not those known by hand is detected before any figure is given."""

import importlib

import pytest
import torch
from pytest_membudget.devices.fake import detours, mode

from pytest_membudget.errors import UnsupportedTorch


def checked(break_it):
    globals()[break_it]()
    try:
        virtual_device.self_check()  # noqa: F821 - given by the device's process
    except UnsupportedTorch as error:
        return str(error)


def nothing():
    pass


def foreach_default():
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        types = importlib.import_module(name)._foreach_supported_types
        types[:] = [one for one in types if one.__name__ != "FakeTensor"]


def sole_owner_rule():
    detours._SOLE_OWNER = (0, 0)


def deaths():
    """Something keeps every tensor that an operator gives."""
    kept, run = [], mode.VirtualMode._run

    def keep(self, *args):
        kept.append(run(self, *args))
        return kept[-1]

    mode.VirtualMode._run = keep


def optimizer_hooks():
    importlib.import_module("torch.optim.optimizer")._global_optimizer_post_hooks.clear()


def test_the_installed_torch_is_as_it_was_made_for(trace):
    assert trace(checked, "nothing").value is None


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        ("foreach_default", "temporaries 201326592 instead of 268435456"),
        ("sole_owner_rule", "storages 12 instead of 11"),
        ("deaths", "temporaries "),
        ("optimizer_hooks", "optimizer_states 0 instead of 536870912"),
    ],
)
def test_a_torch_that_behaves_otherwise_is_detected(trace, break_it, text):
    message = trace(checked, break_it).value

    assert message is not None
    assert message.startswith(
        f"torch {torch.__version__} is not a torch that the virtual device was made for"
    )
    assert text in message
