"""Activations that ``save_on_cpu`` keeps in host memory, and pinned memory of round sizes. By hand."""

import torch
from small_models import MIB
from torch import nn


class SineOfSquare(nn.Module):
    def forward(self, x):
        return (x * x).sin()


def offloads(pin):
    with torch.autograd.graph.save_on_cpu(pin_memory=pin):
        x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
        before = torch.cuda.memory_allocated()
        y = SineOfSquare()(x)
        held = torch.cuda.memory_allocated() - before
    y.sum().backward()
    return held


def check(traced):
    # on the GPU only the result, 4 MiB in fp32; a product keeps each of its factors, and sin its input
    assert traced.value == 4 * MIB
    host = traced.report.host
    assert host.components["activations"] == 3 * 4 * MIB
    # and a number of 4 bytes
    assert sum(host.components.values()) == host.peak.allocated_bytes == 3 * 4 * MIB + 4


def test_activations_go_to_pinned_memory(trace):
    check(trace(offloads, True))


def test_activations_go_to_pageable_memory(trace):
    check(trace(offloads, False))


def made_pinned():
    kept = [torch.empty(4 * MIB, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    return [one.is_pinned() for one in kept]


def test_pinned_memory_of_a_round_size_has_no_rounding(trace):
    traced = trace(made_pinned)

    assert traced.value == [True, True]
    assert traced.report.host.peak.allocated_bytes == 8 * MIB
    assert traced.report.host.components["temporaries"] == 8 * MIB
