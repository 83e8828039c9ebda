"""Tensors of a class of the user's own around the memory of another: quantised parameters and the like."""

import torch
from torch import nn

MIB = 2**20
N = 2**18  # 1 MiB of float32


class Marked(nn.Parameter):
    """A parameter with something of its own, as bitsandbytes and others make them."""

    def __new__(cls, data, requires_grad=True, mark="new"):
        self = torch.Tensor._make_subclass(cls, data, requires_grad)
        self.mark = mark
        return self

    def cuda(self, device=None, non_blocking=False):
        self.data = self.data.to("cuda").half()  # as a quantised weight: other data, the same object
        self.mark = "moved"
        return self

    def __deepcopy__(self, memo):
        return type(self)(self.data.clone(), self.requires_grad, self.mark)


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Marked(torch.ones(N), mark="made")

    def forward(self):
        return self.weight * 2


def moved():
    module = Module()
    before = [type(module.weight).__name__, isinstance(module.weight, Marked), module.weight.mark]
    same = module.weight
    module.cuda()
    module().sum().backward()
    weight = module.weight
    return [
        *before, weight is same, isinstance(weight, Marked), weight.mark, str(weight.dtype),
        weight.device.type, isinstance(weight, nn.Parameter), [name for name, _ in module.named_parameters()],
    ]  # fmt: skip


def test_a_parameter_of_an_own_class_keeps_it_when_moved(trace):
    run = trace(moved)

    assert run.value == [
        "Marked", True, "made", True, True, "moved", "torch.float16", "cuda", True, ["weight"],
    ]  # fmt: skip
    assert run.parameters == MIB // 2
    assert run.report.host.peak_bytes == MIB


class Pair(torch.Tensor):
    """A wrapper that handles operators itself, as a quantised weight of torchao does."""

    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype, device=codes.device)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Pair(args[0].codes, args[0].scale)
        opened = [one.codes.float() * one.scale if isinstance(one, Pair) else one for one in args]
        return func(*opened, **(kwargs or {}))


def exchanged():
    module = nn.Linear(512, 512, bias=False, device="cuda")  # 1 MiB
    weight = module.weight
    pair = Pair(torch.zeros(512, 512, dtype=torch.uint8, device="cuda"), torch.ones((), device="cuda"))
    torch.utils.swap_tensors(module.weight, nn.Parameter(pair, requires_grad=False))
    y = module(torch.ones(1, 512, device="cuda"))
    return [weight is module.weight, type(weight).__name__, list(y.shape)]


def test_a_parameter_can_become_a_wrapper(trace):
    """torchtune's NF4 linears are made so (torchtune 0.6.1, modules/low_precision/nf4_linear.py)."""
    run = trace(exchanged)

    assert run.value == [True, "Pair", [1, 512]]
    assert run.frozen_parameters == MIB // 4 + 4  # the codes and their scale
