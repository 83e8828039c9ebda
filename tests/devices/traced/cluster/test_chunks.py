"""A rank's chunk of a parameter is the one that torch gives."""

import pytest
import torch
from pytest_membudget.devices.fake.cluster.sharded_parameters import Chunks
from torch.distributed.fsdp._fully_shard._fsdp_common import _chunk_with_empty


@pytest.mark.parametrize("shape", [(13, 3), (8, 2), (1,), (3, 7), (0, 4)])
@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 16])
@pytest.mark.parametrize("dim", [0, -1])
def test_chunks_are_torchs(shape, count, dim):
    tensor = torch.arange(torch.Size(shape).numel()).view(shape)
    expected = _chunk_with_empty(tensor, count, dim % len(shape))

    chunks = Chunks(tensor, count, dim % len(shape))

    for index, one in enumerate(expected):
        assert torch.equal(chunks[index], one)
        assert chunks[index].shape == one.shape
