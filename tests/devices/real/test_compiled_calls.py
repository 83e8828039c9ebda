"""Compiled code runs without the hooks that follow modules; it is followed as a whole."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_membudget.devices.real.compiled_calls import CompiledCalls
from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.tracking.running_code.modules import ModuleStack

pytestmark = pytest.mark.slow


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        return self.inner(x) + 1


class Watch:
    """Follows modules as a run's observer does, and keeps what it was told."""

    def __init__(self):
        self.roots = []
        self.told = []
        self.stack = ModuleStack(self.roots.append, lambda module, number: None)
        self._calls = CompiledCalls(lambda module, optimizers: self.stack.paused(module), self.told.append)

    def __enter__(self):
        self.stack.install()
        self._calls.install()
        return self

    def __exit__(self, *exception):
        self._calls.remove()
        self.stack.remove()


@pytest.fixture(autouse=True)
def compiler():
    torch.compiler.reset()


def wrapped(model):
    return torch.compile(model, backend="eager", fullgraph=True)


def in_place(model):
    model.compile(backend="eager", fullgraph=True)
    return model


def function_of(model):
    return torch.compile(lambda x: model(x), backend="eager", fullgraph=True)


# fullgraph: a hook that is met raises
@pytest.mark.parametrize("compiled", [wrapped, in_place])
def test_a_compiled_module_is_one_call(compiled):
    model = Model()
    with Watch() as watch:
        run, x = compiled(model), torch.ones(2, 4)
        result = run(x)
        assert watch.roots == [model]
        assert watch.told[0][0] is x
        # until 2.11 the function that dynamo puts around it returns without a name for the result
        is_told = compiled is wrapped or torch_release() >= (2, 12)
        assert watch.told[-1] is (result if is_told else None)
        Model()(x)
        assert len(watch.roots) == 2  # the hooks are back


def test_a_compiled_function_has_no_modules():
    model = Model()
    with Watch() as watch:
        function_of(model)(torch.ones(2, 4))
        assert watch.roots == []
        model(torch.ones(2, 4))
        assert watch.roots == [model]


def test_what_was_compiled_before_is_followed_too():
    model = Model()
    run = in_place(model)
    with Watch() as watch:
        run(torch.ones(2, 4))
        assert watch.roots == [model]


def test_an_error_brings_the_hooks_back():
    def fails(x):
        raise ValueError("meant")

    with Watch() as watch:
        with pytest.raises(ValueError, match="meant"):
            torch.compile(fails, backend="eager")(torch.ones(2))
        Model()(torch.ones(2, 4))
        assert len(watch.roots) == 1


LIBRARY = """
import functools
import torch
from test_compiled_calls import Model, Watch

watch = Watch()
watch.__enter__()
compile_of_torch = torch.compile

@functools.wraps(compile_of_torch)
def library(*args, **kwargs):  # Lightning's Fabric keeps the arguments
    library.calls += 1
    return compile_of_torch(*args, **kwargs)

library.calls = 0
torch.compile = library
if {again}:
    watch.__exit__()
    assert torch.compile is library
    watch.__enter__()
model = Model()
torch.compile(model, backend="eager", fullgraph=True)(torch.ones(2, 4))
assert watch.roots == [model], watch.roots
assert library.calls == 1
watch.__exit__()
assert torch.compile is library
"""


READER = """
import os
import torch
from pytest_membudget.cache.audit import raise_more_events
from test_compiled_calls import Watch

def reader(x):
    return x + 1 if os.environ.get("NOT_SET_ANYWHERE") is None else x

raise_more_events()
with Watch():
    torch.compile(reader, backend="eager", fullgraph=True)(torch.ones(2, 4))
"""


@pytest.mark.parametrize(
    "program",
    [LIBRARY.format(again=False), LIBRARY.format(again=True), READER],
    ids=["a library's own torch.compile", "in the next test too", "a variable is read"],
)
def test_nothing_breaks_the_graph_and_libraries_may_put_their_own_around_torch_compile(program):
    """In a new process: the compiler has not been used, and events of ``os`` are raised for good."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_nothing_of_torch_stays_changed():
    from torch._dynamo import eval_frame

    before = (torch.compile, eval_frame._maybe_set_eval_frame, eval_frame.OptimizedModule.__call__)
    with Watch():
        wrapped(Model())(torch.ones(2, 4))
        assert eval_frame._maybe_set_eval_frame is not before[1]
    assert (torch.compile, eval_frame._maybe_set_eval_frame, eval_frame.OptimizedModule.__call__) == before
