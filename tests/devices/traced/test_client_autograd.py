"""Autograd as people extend it: functions and operators of their own, hooks, gradients of gradients.

Tensors of 512 x 512 numbers are 1 MiB in fp32; what is left and the most are counted from before the forward.
"""

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils import prune

from pytest_membudget.devices.torch_parts import torch_release

MIB = 2**20
#: cuBLAS's workspace for a handle on an A100 (CUDABlas.cpp), which stays until torch 2.15
WORKSPACE = 8519680 if torch_release() < (2, 15) else 0


def square(**options):
    return torch.randn(512, 512, device="cuda", **options)


class Counted:
    """What is held more than before: ``saved`` after a forward, ``most`` up to the end."""

    def __init__(self):
        torch.cuda.reset_peak_memory_stats()
        self.before = torch.cuda.memory_allocated()
        self.saved = 0

    def forward_ended(self):
        self.saved = torch.cuda.memory_allocated() - self.before

    def found(self):
        """Saved, most, left: in MiB, numbers on the device left aside."""
        held = torch.cuda.memory_allocated() - self.before
        most = torch.cuda.max_memory_allocated() - self.before
        return [size // MIB for size in (self.saved, most, held)]


class Exp(torch.autograd.Function):
    """Saves its result, which is there anyway."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * result


class ExpWithAttributes(torch.autograd.Function):
    """Keeps its input, its result and a copy of it on the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.result = x, x.exp()
        ctx.copy = ctx.result.clone()
        return ctx.result.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.result


class Doubled(torch.autograd.Function):
    """In place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class WithSetup(torch.autograd.Function):
    """In the newer style, with a result that has no gradient."""

    @staticmethod
    def forward(x):
        return x.exp(), x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        result, positive = output
        ctx.save_for_backward(result, positive)
        ctx.mark_non_differentiable(positive)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient, nothing):
        assert nothing is None
        result, positive = ctx.saved_tensors
        return gradient * result * positive


def of_function(how):
    x = square(requires_grad=True)
    counted = Counted()
    if how == "saved result":
        y = Exp.apply(x)
    elif how == "attributes":
        y = ExpWithAttributes.apply(x)
    elif how == "dirty":
        y = Doubled.apply(x * 1)
    else:
        y, positive = WithSetup.apply(x)
        assert not positive.requires_grad
        del positive
    counted.forward_ended()
    y.backward(torch.ones((), device="cuda").expand(512, 512))
    return counted.found()


@pytest.mark.parametrize(
    ("how", "saved", "most", "left"),
    [
        # the result is what is saved; backward makes the gradient, and the graph lets go of nothing else
        ("saved result", 1, 2, 2),
        # the result, its two copies; the context lives as long as y: backward frees no attributes
        ("attributes", 3, 4, 4),
        # x * 1 changed in place; its gradient passes on through two products by a number
        ("dirty", 1, 3, 2),
        # the result and a quarter of a MiB; backward's two products
        ("with setup", 1, 3, 2),
    ],
)
def test_a_function_keeps_what_it_saves(trace, how, saved, most, left):
    assert trace(of_function, how).value == [saved, most, left]


def penalised():
    model = nn.Sequential(nn.Linear(512, 512, bias=False), nn.Tanh(), nn.Linear(512, 512, bias=False)).cuda()
    x = square(requires_grad=True)
    output = model(x).sum()
    before = torch.cuda.memory_allocated()
    (slope,) = torch.autograd.grad(output, x, create_graph=True)
    kept = torch.cuda.memory_allocated() - before
    penalty = (slope.norm(2, dim=1) - 1).square().mean()
    penalty.backward()
    return [kept // MIB, [parameter.grad is not None for parameter in model.parameters()]]


def test_a_gradient_with_a_graph_keeps_what_its_own_backward_needs(trace):
    """The slope, and of tanh's backward what came in (saved: a product with the weight) and what went out.

    1 MiB each, and backward's workspace.
    """
    traced = trace(penalised)

    assert traced.value == [(3 * MIB + WORKSPACE) // MIB, [True, True]]


def parametrized(how):
    layer = nn.Linear(512, 512, bias=False, device="cuda")
    if how == "weight_norm":
        nn.utils.parametrizations.weight_norm(layer)
    elif how == "pruned":
        prune.l1_unstructured(layer, "weight", amount=0.3)
    else:
        nn.utils.parametrizations.spectral_norm(layer)
    counted = Counted()
    layer(square()).sum().backward()
    return [sorted(dict(layer.named_parameters())), sorted(dict(layer.named_buffers())), counted.found()[2]]


@pytest.mark.parametrize(
    ("how", "parameters", "buffers", "workspaces"),
    [
        # a norm for each of 512 rows
        ("weight_norm", MIB + 4 * 512, 0, 2),
        ("pruned", MIB, MIB, 2),
        # two vectors; the forward's workspace is there since they were made by products
        ("spectral_norm", MIB, 2 * 4 * 512, 1),
    ],
)
def test_parametrizations_hold_parameters_and_buffers(trace, how, parameters, buffers, workspaces):
    traced = trace(parametrized, how)

    assert (traced.parameters, traced.buffers) == (parameters, buffers)
    assert traced.value[2] == 1 + workspaces * WORKSPACE // MIB  # and the gradient


def inferred(how):
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
    counted = Counted()
    with getattr(torch, how)():
        result = model(square())
    return [counted.found()[1], result.requires_grad, result.is_inference()]


@pytest.mark.parametrize("how", ["no_grad", "inference_mode"])
def test_inference_holds_a_layers_input_and_output(trace, how):
    """The batch, which the caller's frame holds, a hidden tensor and the next; the workspace."""
    traced = trace(inferred, how)

    assert traced.value == [3 + WORKSPACE // MIB, False, how == "inference_mode"]


def made_on_the_default_device(how):
    if how == "set":
        torch.set_default_device("cuda")
        layer, x = nn.Linear(512, 512, bias=False), torch.randn(512, 512)
    else:
        with torch.device("cuda"):
            layer, x = nn.Linear(512, 512, bias=False), torch.randn(512, 512)
    return [str(layer.weight.device), str(layer(x).device), torch.arange(3, device="cuda").tolist()]


@pytest.mark.parametrize("how", ["set", "with"])
def test_the_default_device(trace, how):
    traced = trace(made_on_the_default_device, how)

    assert traced.value == ["cuda:0", "cuda:0", [0, 1, 2]]
    assert traced.parameters == MIB


def knows_on_the_default_device():
    torch.set_default_device("cuda")
    mask = torch.ones(8, 8).tril().bool()
    chosen = torch.randn(64, 8).topk(2)[1]
    return [int(mask.sum()), len(mask.nonzero()), torch.bincount(chosen.flatten(), minlength=8).tolist()]


def test_values_are_known_with_a_default_device(trace):
    assert trace(knows_on_the_default_device).value == [36, 36, [61, 61, 1, 1, 1, 1, 1, 1]]
