"""Kernels' own memory by shape, against the rules that the virtual device has from the same sources.

Formulas of two places that must say the same: here without torch, there over tensors.
"""

import itertools

import pytest
import torch

from pytest_membudget.analytic.implementations import attention_kernels, kernels
from pytest_membudget.gpus import find_gpu
from pytest_membudget.virtual import attention_temporaries, cudnn_attention
from pytest_membudget.virtual.kernel_embeddings import embedding_backward
from pytest_membudget.virtual.kernel_sums import sum_temporaries

CARDS = ["A100-80GB", "H100-80GB", "RTX-4090", "B200"]
HEADS = [(16, 16), (16, 4), (32, 8)]


def operand(batch, length, heads, width, dtype):
    return torch.empty(batch, length, heads, width, dtype=dtype, device="meta").transpose(1, 2)


@pytest.mark.parametrize("card", CARDS)
def test_attention(card):
    gpu = find_gpu(card)
    for batch, (heads, kv_heads), length, width, dtype in itertools.product(
        (1, 8), HEADS, (128, 1000, 2048), (64, 128, 256), (torch.bfloat16, torch.float32)
    ):
        q = operand(batch, length, heads, width, dtype)
        k = operand(batch, length, kv_heads, width, dtype)
        call = attention_kernels.Call(batch, heads, kv_heads, length, length, width, width, dtype.itemsize)
        found = {
            "flash": (
                attention_temporaries.flash_forward([q, k], gpu),
                attention_kernels.flash_forward_bytes(call, gpu),
            ),
            "flash backward": (
                attention_temporaries.flash_backward([q, q, k, k, q], gpu),
                attention_kernels.flash_backward_bytes(call, gpu),
            ),
            "efficient": (
                attention_temporaries.efficient_forward([q, k, k], gpu),
                attention_kernels.efficient_forward_bytes(call, gpu),
            ),
        }
        if heads == kv_heads:
            found["efficient backward"] = (
                attention_temporaries.efficient_backward([q, q, k, k], gpu),
                attention_kernels.efficient_backward_bytes(call, gpu),
            )
        if dtype is torch.bfloat16:
            found["cudnn"] = (
                cudnn_attention.forward_workspace([q, k, k, None, True], gpu),
                attention_kernels.cudnn_forward_bytes(call, gpu),
            )
            arguments = [q, q, k, k, q, None, None, None, None]
            found["cudnn backward"] = (
                cudnn_attention.backward_workspace(arguments, gpu),
                attention_kernels.cudnn_backward_bytes(call, gpu),
            )
        differ = {name: pair for name, pair in found.items() if sum(pair[0]) != pair[1]}
        assert not differ, (batch, heads, kv_heads, length, width, dtype)


@pytest.mark.parametrize("card", CARDS)
def test_sums_over_rows(card):
    gpu = find_gpu(card)
    for rows, columns, dtype in itertools.product(
        (1, 100, 1024, 10_000), (64, 1000, 4097, 11_008, 32_000), (torch.bfloat16, torch.float32)
    ):
        matrix = torch.empty(rows, columns, dtype=dtype, device="meta")
        sums = torch.empty(columns, dtype=dtype, device="meta")

        expected = sum(sum_temporaries(matrix, [0], sums, gpu))

        assert kernels.column_sum_bytes(rows, columns, gpu) == expected


@pytest.mark.parametrize("tokens", [512, 4096, 20_000])
@pytest.mark.parametrize("rows", [1000, 32_000, 128_256])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_embeddings_backward(tokens, rows, dtype):
    """Sorting takes a little more only where there are few rows to sum up."""
    gpu = find_gpu("A100-80GB")
    gradient = torch.empty(tokens, 1024, dtype=dtype, device="meta")
    indices = torch.empty(tokens, dtype=torch.int64, device="meta")
    result = torch.empty(rows, 1024, dtype=dtype, device="meta")

    expected = sum(embedding_backward([gradient, indices, rows, -1, False], {}, result, gpu))
    found = kernels.embedding_backward_bytes(tokens, rows, 1024, dtype.itemsize, gpu)

    assert found == pytest.approx(expected, rel=0.001)
