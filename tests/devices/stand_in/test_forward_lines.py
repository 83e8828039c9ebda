"""Rows of a backward name the line of the forward that they are of, by autograd's sequence numbers."""

import inspect
import os

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_membudget.devices.real.forward_lines import WITHOUT_KERNEL
from tests.devices.stand_in.small_layers import measured

MIB = 2**20


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4096, 512)
        self.weight = nn.Parameter(torch.ones(512, 512))

    def forward(self, index):
        x = self.table(index)
        x = x @ self.weight
        x = x.sin()
        return x[:1]


def trained(how):
    """The peak is after the backward, with the gradients."""
    layer = Layer().cuda()
    index = torch.zeros(4096, dtype=torch.long, device="cuda")
    result = checkpoint(layer, index, use_reentrant=False) if how == "checkpoint" else layer(index)
    result.sum().backward()
    if how == "twice":
        layer(index).sum().backward()
    torch.ones(64 * MIB, device="cuda")


def line_of(text):
    lines, first = inspect.getsourcelines(inspect.getmodule(trained))
    (number,) = [number for number, line in enumerate(lines, first or 1) if line.strip() == text]
    return f"test_forward_lines.py:{number}"


@pytest.mark.parametrize("how", ["plain", "twice", "checkpoint"])
def test_what_backward_allocates_is_of_the_forwards_line(trace, how):
    """The gradient of the table is as large as it, and made of what the forward did not allocate at all."""
    report = trace(trained, how).report
    found = {(row.operator, row.location) for row in report.holders if row.component == "gradients"}

    assert found == {
        ("aten::embedding_dense_backward", line_of("x = self.table(index)")),
        ("aten::mm", line_of("x = x @ self.weight")),
    }


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512, 512))

    def forward(self, x):
        return x @ self.weight


def recomputed():
    """The recomputation runs in the product's own node, and ends early: then the node computes."""
    x = torch.ones(512, 512, device="cuda", requires_grad=True)
    product = Product().cuda()
    checkpoint(product, x, use_reentrant=False).sum().backward()
    torch.ones(64 * MIB, device="cuda")


def test_a_node_that_recomputes_is_of_its_forwards_line_and_of_the_backward(trace):
    gradients = [row for row in trace(recomputed).report.holders if row.component == "gradients"]

    assert sum(row.bytes for row in gradients) == 2 * MIB  # of x, and of the weight
    assert {(row.operator, row.location, row.phase) for row in gradients} == {
        ("aten::mm", line_of("return x @ self.weight"), "backward")
    }


def gradients_of_a_measurement():
    report = measured(trained, "plain", root=os.path.dirname(__file__))
    return [[row.operator, row.location] for row in report.holders if row.component == "gradients"]


def test_a_measurement_tells_the_same(stand_in):
    """A device that follows no values, here on the stand-in's libraries."""
    found = stand_in(gradients_of_a_measurement, unlimited=True)

    assert ["aten::embedding_dense_backward", line_of("x = self.table(index)")] in found
    assert ["aten::mm", line_of("x = x @ self.weight")] in found


def of_a_view():
    x = torch.ones(4 * MIB, device="cuda", requires_grad=True)
    y = x[: 4 * MIB - 1]
    torch.ones(1, device="cuda")
    (y * 2).sum().backward()


def test_of_a_views_node_nothing_is_said_but_the_line_that_called_backward(trace):
    report = trace(of_a_view).report
    rows = [
        row for row in report.holders if row.phase == "backward" and row.operator == "aten::slice_backward"
    ]

    assert {row.location for row in rows} <= {line_of("(y * 2).sum().backward()")}
    assert rows


def test_every_view_of_pytorchs_is_known_to_have_no_kernel():
    names = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    packets = [getattr(torch.ops.aten, name, None) for name in names]
    views = {
        packet._qualified_op_name.partition("::")[2].title().replace("_", "")
        for packet in packets
        if packet is not None and any(getattr(packet, overload).is_view for overload in packet.overloads())
    }
    ours = {"AutocastToFullPrecision", "AutocastToReducedPrecision", "MakeDual", "PinMemory", "Coalesce"}
    copies = {"Contiguous", "Copy", "To", "TestAutogradMultipleDispatchView", "LinalgDiagonal"}

    assert views - ours - copies <= WITHOUT_KERNEL
