"""``torch.func`` and ``torch.autograd.functional``: transforms run through the kernels that are followed."""

import pytest
import torch
from torch import nn

from pytest_membudget.devices.torch_parts import torch_release

MIB = 2**20
#: cuBLAS's workspace for a handle on an A100 (CUDABlas.cpp), which stays until torch 2.15
WORKSPACE = 8519680 if torch_release() < (2, 15) else 0


def linear():
    """1 MiB of weights."""
    return nn.Linear(512, 512, bias=False, device="cuda")


def square():
    return torch.randn(512, 512, device="cuda")


def of_parameters():
    model, x = linear(), square()
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    before = torch.cuda.memory_allocated()
    gradients = torch.func.grad(lambda given: torch.func.functional_call(model, given, (x,)).sum())(weights)
    held = torch.cuda.memory_allocated() - before
    return [held, gradients["weight"].requires_grad, weights["weight"].requires_grad]


def test_a_gradient_is_a_tensor_of_its_own(trace):
    """The gradient, 1 MiB, and a workspace each for forward and backward."""
    assert trace(of_parameters).value == [MIB + 2 * WORKSPACE, False, False]


def how_much_at_most():
    x = square()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.func.grad(lambda given: given.exp().exp().exp().sum())(x)
    return (torch.cuda.max_memory_allocated() - before) // MIB


def test_it_makes_a_graph_of_its_own_backward(trace):
    """Two results, and three gradients: products that save both factors for a backward of their own.

    The third result is let go of: it was multiplied by ones, whose gradient nobody asks for.
    """
    assert trace(how_much_at_most).value == 2 + 3


def adapted():
    model, x = linear(), square()
    weights = dict(model.named_parameters())

    def loss(given):
        return torch.func.functional_call(model, given, (x,)).square().mean()

    gradients = torch.func.grad(loss)(weights)
    loss({name: weights[name] - 0.1 * gradients[name] for name in weights}).backward()
    return list(model.weight.grad.shape)


def test_a_step_in_a_step(trace):
    """Model-agnostic meta-learning: through the inner gradient to the parameters."""
    traced = trace(adapted)

    assert traced.value == [512, 512]
    assert traced.parameters == MIB


def in_other_ways(how):
    x = torch.randn(4, device="cuda")
    ways = {
        "twice": lambda: torch.func.grad(lambda y: torch.func.grad(lambda z: (z**3).sum())(y).sum())(x),
        "several": lambda: torch.func.grad(lambda y, z: (y * z).sum(), argnums=(0, 1))(x, x)[1],
        "vjp": lambda: torch.func.vjp(torch.sin, x)[1](x)[0],
        "vmap": lambda: torch.func.vmap(lambda y: (y * 2).sum())(x[:, None]),
        "jvp": lambda: torch.func.jvp(torch.sin, (x,), (x,))[1],
        "jacfwd": lambda: torch.func.jacfwd(torch.sin)(x),
        "jacrev row by row": lambda: torch.func.jacrev(torch.sin, chunk_size=1)(x),
        "jacobian": lambda: torch.autograd.functional.jacobian(torch.sin, x),
        "per sample": lambda: torch.func.vmap(torch.func.grad(torch.sin))(x),
        "jacrev": lambda: torch.func.jacrev(torch.sin)(x),
        "hessian": lambda: torch.func.hessian(lambda y: y.sin().sum())(x),
        "vectorized": lambda: torch.autograd.functional.jacobian(torch.sin, x, vectorize=True),
        "on the host": lambda: torch.func.hessian(lambda y: y.sin().sum())(torch.randn(4)),
    }
    return list(ways[how]().shape)


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        ("twice", [4]), ("several", [4]), ("vjp", [4]), ("vmap", [4]), ("jvp", [4]), ("jacfwd", [4, 4]),
        ("jacrev row by row", [4, 4]), ("jacobian", [4, 4]), ("per sample", [4]), ("jacrev", [4, 4]),
        ("hessian", [4, 4]), ("vectorized", [4, 4]), ("on the host", [4, 4]),
    ],
)  # fmt: skip
def test_other_ways(trace, how, shape):
    assert trace(in_other_ways, how).value == shape
