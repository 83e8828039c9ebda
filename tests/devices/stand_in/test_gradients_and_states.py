"""Gradients of every kind of parameter and layout, and states of optimizers; figures by hand.

A weight of 512 x 512 numbers is 1 MiB in fp32.
"""

import contextlib

import pytest
import torch
from torch import nn

from tests.devices.stand_in.small_layers import MIB, batch, linear, peak

# Gradients


def of_no_module():
    """Neither a module nor an optimizer has it."""
    weight = nn.Parameter(torch.zeros(512, 512, device="cuda"))
    (batch() @ weight).sum().backward()
    peak()
    return weight.dim()


def of_a_tensor():
    weight = torch.zeros(512, 512, device="cuda", requires_grad=True)
    (batch() @ weight).sum().backward()
    peak()
    return weight.dim()


def asked_for():
    """They are returned, not accumulated."""
    model = linear()
    gradients = torch.autograd.grad(model(batch()).sum(), [*model.parameters()])
    peak()
    return len(gradients)


def of_a_function():
    model = linear()
    weights = dict(model.named_parameters())

    def loss(weights):
        return torch.func.functional_call(model, weights, (batch(),)).sum()

    gradients = torch.func.grad(loss)(weights)
    peak()
    return len(gradients)


def accumulated():
    """The second backward adds to the first one's."""
    model = linear()
    for _ in range(2):
        model(batch()).sum().backward()
    peak()


def penalised():
    """A gradient with a graph, for a penalty of its norm."""
    model, x = linear(), batch().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).square().sum(), [*model.parameters()], create_graph=True)
    peak()
    gradient.square().sum().backward()


def moved_with_gradients():
    """``module.to`` gives gradients other memory too."""
    model = linear()
    model(batch()).sum().backward()
    model.to(torch.bfloat16)
    peak()
    return model.weight.grad.dim()


def inside_of_backward():
    """A gradient that a hook of the user's looks at."""
    model = linear()
    model.weight.register_post_accumulate_grad_hook(lambda weight: print(peak()))
    model(batch()).sum().backward()


def by_columns():
    """As begins of rows, columns and values; as rows and their numbers: test_components.py."""
    rows = torch.arange(0, 1025 * 4, 4, device="cuda")
    columns = torch.zeros(4096, dtype=torch.long, device="cuda")
    values = torch.zeros(4096, device="cuda")
    table = torch.sparse_csr_tensor(rows, columns, values, (1024, 512), requires_grad=True)
    torch.sparse.mm(table, torch.zeros(512, 4, device="cuda")).sum().backward()
    peak()
    return table is not None


GRADIENTS = [
    (of_no_module, MIB),
    (of_a_tensor, MIB),
    (asked_for, MIB),
    (of_a_function, MIB),
    (accumulated, MIB),
    (penalised, MIB),
    (moved_with_gradients, MIB // 2),
    (inside_of_backward, MIB),
    (by_columns, 1025 * 8 + 4096 * 8 + 4096 * 4),
]


@pytest.mark.parametrize(("body", "gradients"), GRADIENTS)
def test_what_backward_gives_parameters_is_gradients(trace, body, gradients):
    assert trace(body).has(gradients=gradients)


# States


def out_of_memory():
    """Of 48 weights with gradients, of half a GiB each, the card has room for the states of some.

    If this fails where torch is new: ``torch._C._cuda_attach_out_of_memory_observer`` is private.
    """
    weights = [nn.Parameter(torch.empty(2**28, device="cuda", dtype=torch.bfloat16)) for _ in range(48)]
    for weight in weights:
        weight.grad = torch.empty_like(weight)
    optimizer = torch.optim.AdamW(weights, foreach=False)
    with contextlib.suppress(torch.OutOfMemoryError):
        optimizer.step()
    return sum(tensor.is_cuda for state in optimizer.state.values() for tensor in state.values())


def test_states_are_states_where_memory_runs_out_in_the_step(trace):
    traced = trace(out_of_memory, limited=True)

    assert traced.has(parameters=48 * 2**29, gradients=48 * 2**29)
    assert 0 < traced.optimizer_states == traced.value * 2**29
