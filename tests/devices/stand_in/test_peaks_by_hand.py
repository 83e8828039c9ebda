"""Peaks that follow from PyTorch's source by hand, a few: its own code runs."""

import gc

import pytest
import torch
from torch import nn

MIB = 2**20


def looked_for():
    torch.isin(
        torch.zeros(16 * MIB, dtype=torch.int64, device="cuda"),
        torch.zeros(8, dtype=torch.int64, device="cuda"),
    )


def selected_by_a_large_mask():
    x = torch.randn(4096, 1024, device="cuda", requires_grad=True)
    x[torch.ones(4096, 1024, dtype=torch.bool, device="cuda")].sum().backward()


#: What CUB takes to sort places below 2**22, which have 22 bits: three passes and a spare copy of both; tiles
#: of 3,840 (see ``radix_sort_storage_bytes``).
SORTED = 3 * 256 * 8 + -(-4 * MIB // 3840) * 1024 + 2 * 32 * MIB + 256 + 255

PEAKS = [
    # 128 MiB of elements; a mask of 16 MiB for each of eight, their union, and the result:
    # ``isin_Tensor_Tensor_out`` (aten/src/ATen/native/TensorCompare.cpp) compares where there are few
    (looked_for, (128 + (8 + 2) * 16) * MIB + 64),
    # 4 Mi elements: 16 MiB of them, 4 of the mask. Backward puts 16 MiB of gradients, written out, into
    # another 16, by places: 32 MiB each, four times while they are sorted
    (selected_by_a_large_mask, (3 * 16 + 4 + 4 * 32) * MIB + SORTED + 2 * 4),
]


@pytest.mark.parametrize(("body", "requested"), PEAKS)
def test_peaks(trace, body, requested):
    assert trace(body).requested == requested


class Keeping(torch.autograd.Function):
    """Its result and its node refer to each other."""

    @staticmethod
    def forward(ctx, values):
        ctx.result = values * 2
        return ctx.result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def in_cycles(is_collected):
    gc.disable()
    values = torch.zeros(4 * MIB, device="cuda", requires_grad=True)
    for _ in range(60):
        Keeping.apply(values)
        if is_collected:
            gc.collect()
    return torch.cuda.memory_allocated()


@pytest.mark.parametrize(("is_collected", "left", "most"), [(False, 61, 61), (True, 1, 2)])
def test_tensors_in_reference_cycles_live_until_python_collects_them(trace, is_collected, left, most):
    """16 MiB each: the operand, and 60 results or one."""
    traced = trace(in_cycles, is_collected)

    assert (traced.value, traced.allocated) == (left * 16 * MIB, most * 16 * MIB)


def conversions():
    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(8)])
    model[1].weight = model[0].weight
    seen = []
    for change in (model.cuda, model.bfloat16, model.cpu, model.cuda):
        change()
        seen.append(torch.cuda.memory_allocated() // 1024)
    return [*seen, model[0].weight is model[1].weight]


def test_converting_parameters_frees_each_old_one_at_once_and_keeps_them_tied(trace):
    """7 MiB and one bf16 parameter of 1/2 MiB at the peak."""
    traced = trace(conversions)

    assert traced.value == [7 * 1024, 3.5 * 1024, 0, 3.5 * 1024, True]
    assert traced.allocated == 7.5 * MIB
