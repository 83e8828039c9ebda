"""Naive attention over one head, eager and compiled: what is held right after its forward.

Wedsonlin/assignment2-systems at 15178bf, ``_run_vanilla_suite`` of cs336_systems/attention_benchmark.py:
batch 8, fp32, no mask, softmax by hand.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch

from .models.dense_transformer import attention
from .steps import Record


@pytest.mark.mem_budget(gpu="H100-80GB", metric="allocated")
@pytest.mark.parametrize(
    ("length", "width"),
    [
        pytest.param(length, width, id=f"wed-attn-pytorch_attention-s{length}-d{width}")
        for length, width in [
            (256, 32), (256, 64), (256, 128), (1024, 16), (1024, 64), (1024, 128), (4096, 16), (4096, 32),
            (16384, 64), (16384, 128),
        ]
    ],
)  # fmt: skip
def test_naive_attention(length: int, width: int, record_property: Record) -> None:
    hold(attention, length, width, record_property)


@pytest.mark.mem_budget(gpu="H100-80GB", metric="allocated")
@pytest.mark.parametrize(
    ("length", "width"),
    [
        pytest.param(length, width, id=f"wed-attn-torch_compile-s{length}-d{width}")
        for length, width in [
            (256, 16), (256, 32), (256, 64), (256, 128), (1024, 16), (1024, 64), (1024, 128), (4096, 32),
            (4096, 64), (8192, 32), (8192, 64), (16384, 16), (16384, 32),
        ]
    ],
)  # fmt: skip
def test_compiled_attention(length: int, width: int, record_property: Record) -> None:
    """Each size compiled for itself; the original's later ones are recompiled for sizes that change."""
    torch._functorch.config.donated_buffer = False  # as in the original: the graph is kept in its backward
    hold(torch.compile(attention), length, width, record_property)


def hold(attend: Callable[..., torch.Tensor], length: int, width: int, record_property: Record) -> None:
    query, key, value = (torch.randn(8, length, width, device="cuda", requires_grad=True) for _ in range(3))
    gradient = torch.randn_like(query)

    for _ in range(2):  # five in the original, all alike
        warm_up = attend(query, key, value)
        warm_up.backward(gradient)
        for tensor in (query, key, value):
            tensor.grad = None
    gc.collect()
    torch.cuda.empty_cache()
    for _ in range(2):  # the timed forwards
        attend(query, key, value)
    torch.cuda.empty_cache()
    output = attend(query, key, value)
    record_property("allocated_after_forward_bytes", torch.cuda.memory_allocated())
    output.backward(gradient, retain_graph=True)
    assert warm_up.shape == output.shape  # both are alive when the figure is read
