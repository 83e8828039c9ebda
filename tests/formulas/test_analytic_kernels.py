"""Kernels' own memory as the formulas ask for it, against what the virtual device charges for tensors."""

import itertools

import pytest
import torch

from pytest_membudget.devices.fake.kernel_embeddings import embedding_backward
from pytest_membudget.devices.fake.kernel_sums import sum_temporaries
from pytest_membudget.formulas.implementations import kernels
from pytest_membudget.hardware.gpus import find_gpu

CARDS = ["A100-80GB", "H100-80GB", "RTX-4090", "B200"]


@pytest.mark.parametrize("card", CARDS)
def test_sums_over_rows(card):
    gpu = find_gpu(card)
    for rows, columns, dtype in itertools.product(
        (1, 100, 1024, 10_000), (64, 1000, 4097, 11_008, 32_000), (torch.bfloat16, torch.float32)
    ):
        matrix = torch.empty(rows, columns, dtype=dtype, device="meta")
        sums = torch.empty(columns, dtype=dtype, device="meta")

        expected = sum(sum_temporaries(matrix, [0], sums, gpu))

        assert sum(kernels.column_sum(rows, columns, dtype.itemsize, gpu)) == expected


@pytest.mark.parametrize("tokens", [512, 4096, 20_000])
@pytest.mark.parametrize("rows", [1000, 32_000, 128_256])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_embeddings_backward(tokens, rows, dtype):
    gpu = find_gpu("A100-80GB")
    gradient = torch.empty(tokens, 1024, dtype=dtype, device="meta")
    indices = torch.empty(tokens, dtype=torch.int64, device="meta")
    result = torch.empty(rows, 1024, dtype=dtype, device="meta")

    expected = sum(embedding_backward([gradient, indices, rows, -1, False], {}, result, gpu))
    found = sum(kernels.embedding_backward(tokens, rows, 1024, dtype.itemsize, gpu))

    assert found == expected
