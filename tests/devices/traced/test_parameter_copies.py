"""Copies of parameters that no module registers: an average of the weights, a snapshot, a master copy."""

import pytest
import torch
from torch import nn

MIB = 2**20


def cloned(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def cloned_and_detached(model):  # diffusers' EMAModel
    return [parameter.clone().detach() for parameter in model.parameters()]


def cloned_data(model):
    return [parameter.data.clone() for parameter in model.parameters()]


def cloned_state_dict(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@torch.no_grad()
def filled(model):
    return [torch.empty_like(parameter).copy_(parameter) for parameter in model.parameters()]


def filled_zeros(model):
    kept = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for copy, parameter in zip(kept, model.parameters(), strict=True):
        copy.copy_(parameter.detach())
    return kept


class Average:
    """As written by hand."""

    def __init__(self, model):
        self.shadow = {name: parameter.data.clone() for name, parameter in model.named_parameters()}

    def update(self, model):
        for name, parameter in model.named_parameters():
            self.shadow[name].mul_(0.99).add_(parameter.data, alpha=0.01)


COPIES = {
    made.__name__: made
    for made in (cloned, cloned_and_detached, cloned_data, cloned_state_dict, filled, filled_zeros, Average)
}


def trained_with(name, late):
    """Two weights of 1 MiB; ``late``: the copy is made after the first step."""
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False, device="cuda") for _ in range(2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    copies = None
    for step in range(3):
        if copies is None and step == late:
            copies = COPIES[name](model)
        model(torch.randn(4, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if isinstance(copies, Average):
            copies.update(model)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_the_weights_in_training_is_frozen_parameters(trace, name, late):
    traced = trace(trained_with, name, late)

    assert traced.parameters == traced.frozen_parameters == traced.gradients == 2 * MIB
    assert traced.inputs == 4 * 512 * 4


def in_float32():
    model = nn.Linear(512, 512, device="cuda", dtype=torch.bfloat16)
    model.register_buffer("table", torch.ones(MIB, device="cuda"))
    kept = [value.float() for value in model.state_dict().values() if value.dtype == torch.bfloat16]
    snapshot = model.state_dict()["table"].clone()
    model(torch.randn(4, 512, device="cuda", dtype=torch.bfloat16))
    return len(kept), len(snapshot)


def test_a_copy_without_training_is_parameters_or_buffers(trace):
    traced = trace(in_float32)

    assert traced.parameters == 3 * (512 * 512 + 512) * 2
    assert traced.buffers == 2 * 4 * MIB
    assert traced.frozen_parameters == 0
    assert traced.inputs == 4 * 512 * 2


def others_copied():
    model = nn.Linear(512, 512, bias=False, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(512, 512, device="cuda")
    for _ in range(2):
        again = batch.clone()  # of a weight's size
        for parameter in model.parameters():
            optimizer.state[parameter]["slow"] = parameter.detach().clone()
            parameter.grad = parameter.detach().clone()
            noise = parameter.detach().clone().double().norm()  # memory that the next tensor takes
        filler = torch.randn(512, 512, device="cuda")
        model(again + filler).sum().backward()
        optimizer.step()
    return noise.shape


def test_what_has_another_purpose_keeps_it(trace):
    """A gradient and an optimizer's state are copies of the weight; batches have the weight's size."""
    traced = trace(others_copied)

    assert traced.parameters == traced.gradients == traced.optimizer_states == MIB
    assert traced.frozen_parameters == 0
    assert traced.inputs >= 3 * MIB


def compiled():
    model = nn.Linear(512, 512, bias=False, device="cuda")

    def step(values):
        tied = model.weight.clone()
        return model(values) @ tied.to(torch.float32)

    graphs = []

    def counted(graph, inputs):
        graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    average = [parameter.detach().clone() for parameter in model.parameters()]
    torch.compile(step, backend=counted, fullgraph=True)(torch.randn(4, 512, device="cuda")).sum().backward()
    return [graphs, len(average)]


def test_a_compiled_step_has_the_same_graph(trace):
    """One graph of four operators: clone, linear, to, matmul."""
    traced = trace(compiled)

    assert traced.value == [[4], 1]
    assert traced.frozen_parameters == MIB


CALLED = []


class Seeing(torch.Tensor):
    """A tensor that lists the functions that are called with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CALLED.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def copies_of_a_subclass():
    one = torch.ones(3, device="cuda").as_subclass(Seeing)
    CALLED.clear()
    one.clone()
    one.to(torch.float16)
    one.copy_(one)
    return CALLED


def test_a_subclass_sees_the_users_calls_alone(trace):
    assert trace(copies_of_a_subclass).value == ["clone", "to", "copy_"]
