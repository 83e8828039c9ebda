"""Modules are followed by which they are."""

from torch import nn

from pytest_membudget.tracking.running_code.modules import ModuleStack


class Compared(nn.Module):
    """Has no truth of whether it equals another, as tensordict's parameters, which are a module."""

    __hash__ = nn.Module.__hash__

    def __eq__(self, other):
        raise RuntimeError("no truth")

    def forward(self, x):
        paths.append(stack.path)
        return x


paths = []
stack = ModuleStack(lambda module: stack.name_children(module), lambda module, number: None)


def test_modules_that_cannot_be_compared_have_their_paths():
    model = nn.Sequential(Compared(), Compared())

    stack.install()
    try:
        model(model(1))
    finally:
        stack.remove()

    assert paths == ["0", "1", "0", "1"]
