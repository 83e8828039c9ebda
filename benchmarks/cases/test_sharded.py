"""Several GPUs, one rank at a time on the stand-in."""

from __future__ import annotations

import pytest

from .models.titan_llama import pretrain_8b

#: torchtitan's H100 have 95 GiB; no card of the catalogue has, and none is full here.
ON_H100 = {"gpu": "H200", "metric": "reserved"}


@pytest.mark.mem_budget(gpus=8, **ON_H100)
@pytest.mark.parametrize("batch", [pytest.param(2, id="titan-l3-8b-8gpu-fsdp")])
def test_titan_on_8(batch: int) -> None:
    pretrain_8b(8192, batch)


@pytest.mark.mem_budget(gpus=128, **ON_H100)
@pytest.mark.parametrize("batch", [pytest.param(2, id="titan-l3-8b-128gpu-fsdp")])
def test_titan_on_128(batch: int) -> None:
    pretrain_8b(8192, batch)
