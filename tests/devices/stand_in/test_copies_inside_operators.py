"""Copies that an operator makes of its operands are temporaries of it, and never inputs; figures by hand."""

import pytest
import torch
from torch.nn import functional

MIB = 2**20


def fp32(*shape):
    return torch.randn(*shape, device="cuda")


def matmul():
    """Both operands are expanded to 64 x 8 products: 64 MiB each."""
    fp32(64, 1, 512, 64) @ fp32(8, 64, 512)


def einsum():
    """As matmul, of operands whose places are exchanged."""
    torch.einsum("bmk,nk->bmn", fp32(512, 64, 64).transpose(0, 1), fp32(512, 64))


def transposed_product():
    """cuBLAS takes rows or columns, not every second one."""
    torch.bmm(fp32(8, 512, 1024)[..., ::2], fp32(8, 512, 512))


def convolution():
    """cuDNN takes one layout."""
    image = fp32(8, 64, 64, 64).transpose(2, 3)
    functional.conv2d(image, fp32(64, 64, 3, 3), padding=1)


COPYING = [
    (matmul, "aten::matmul", 2 * 64 * MIB),
    (einsum, "aten::einsum", 8 * MIB),
    (transposed_product, "aten::bmm", 8 * MIB),
    (convolution, "aten::conv2d", 8 * MIB),
]


@pytest.mark.parametrize(("body", "operator", "size"), COPYING)
def test_a_copy_that_an_operator_makes_is_its_temporary(trace, body, operator, size):
    traced = trace(body)

    copies = [one for one in traced.report.holders if one.component == "temporaries"]
    assert [(one.operator, one.bytes) for one in copies] == [(operator, size)]


# What the user makes


def flattened():
    return fp32(512, 64, 32).transpose(0, 1).flatten()


def masked():
    batch = fp32(1024, 1024)
    return batch.masked_fill(batch > batch[0], 0)


def cast():
    return [fp32(512, 512).double() for _ in range(2)]


def scaled():
    """By a number that nobody has used yet: the node that makes a tensor of it is ours, not the run's."""
    return fp32(512, 512) * 0.73712


def made(name):
    kept = globals()[name]()
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    return len(kept)


USERS = {"flattened": 4 * MIB, "masked": 4 * MIB, "cast": 4 * MIB, "scaled": 1 * MIB}


@pytest.mark.parametrize(("name", "inputs"), USERS.items())
def test_a_copy_that_is_an_operators_result_is_an_input(trace, name, inputs):
    assert trace(made, name).has(inputs=64 * MIB + inputs, temporaries=0)
