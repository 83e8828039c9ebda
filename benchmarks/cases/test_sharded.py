"""Several GPUs, one rank at a time on the stand-in."""

from __future__ import annotations

import pytest

from .models.titan_llama import pretrain_8b

#: torchtitan's H100 have 95 GiB; no card of the catalogue has, and none is full here.
ON_H100 = {"gpu": "H200", "metric": "reserved"}


@pytest.mark.mem_budget(gpus=8, **ON_H100)
@pytest.mark.parametrize(
    "compiled",
    [
        pytest.param(False, id="titan-l3-8b-8gpu-fsdp"),
        pytest.param(True, id="titan-l3-8b-8gpu-fsdp-compile"),
    ],
)
def test_titan_on_8(compiled: bool) -> None:
    pretrain_8b(8192, 2, compiled=compiled)


@pytest.mark.mem_budget(gpus=128, **ON_H100)
@pytest.mark.parametrize(
    "compiled",
    [
        pytest.param(False, id="titan-l3-8b-128gpu-fsdp"),
        pytest.param(True, id="titan-l3-8b-128gpu-fsdp-compile"),
    ],
)
def test_titan_on_128(compiled: bool) -> None:
    pretrain_8b(8192, 2, compiled=compiled)
