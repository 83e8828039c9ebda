"""DeepSpeed's ZeRO, on two GPUs that are not there."""

import deepspeed
import pytest
import torch
from torch import nn

WIDTH, LAYERS = 1024, 4


def layers():
    return nn.Sequential(
        *[
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(LAYERS)
        ]
    )


def train(zero):
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "gradient_clipping": 1.0,
    }
    engine, *_ = deepspeed.initialize(model=layers(), config=config)
    for _ in range(2):
        rows = torch.randn(4, WIDTH, device="cuda", dtype=torch.bfloat16)
        engine.backward(engine(rows).float().square().mean())
        engine.step()


@pytest.mark.mem_budget(gib=1.5, gpus=2)
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_zero(stage):
    train({"stage": stage})


@pytest.mark.mem_budget(gib=0.5, gpus=2)
def test_small_buckets():
    train({"stage": 2, "reduce_bucket_size": 2**24, "allgather_bucket_size": 2**24})
