"""BERT-large on one V100, with all that nvidia-smi shows of the process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from .models.adamw_hf import AdamWHF
from .models.bert import BertClassifier, BertShape

#: nvidia-smi showed 1343 MiB after one number was on the device (CUDA 11.2, driver 460.91, all kernels loaded
#: at once); 2 MiB of it are the segment that the number lay in.
CONTEXT_BYTES = (1343 - 2) * 2**20

Record = Callable[[str, object], None]


def record_nvidia_smi(record_property: Record) -> None:
    """What was shown at the end: what the process reserved, and its context."""
    record_property("nvidia_smi_bytes", torch.cuda.memory_reserved() + CONTEXT_BYTES)


@pytest.mark.mem_budget(gpu="V100-16GB")
@pytest.mark.parametrize("accumulated", [pytest.param(4, id="hf-bertlarge-ga-bs1x4")])
def test_fp32(accumulated: int, record_property: Record) -> None:
    """Trainer's loop; gradients are zeroed, not dropped, as ``zero_grad`` did before torch 2.0."""
    model = BertClassifier(BertShape()).to("cuda")
    optimizer = AdamWHF(model.parameters())
    model.zero_grad(set_to_none=False)
    for _ in range(2):
        for _ in range(accumulated):
            training_step(model, accumulated)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.zero_grad(set_to_none=False)
    record_nvidia_smi(record_property)


def training_step(
    model: BertClassifier, accumulated: int, scaler: torch.amp.GradScaler | None = None
) -> torch.Tensor:
    """Forward and backward of one sequence; nothing but the loss is kept."""
    tokens = torch.zeros(1, 512, dtype=torch.long).to("cuda")
    labels = torch.zeros(1, dtype=torch.long).to("cuda")
    with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
        loss = model(tokens, labels)
    loss = loss / accumulated
    (loss if scaler is None else scaler.scale(loss)).backward()
    return loss.detach()


@pytest.mark.mem_budget(gpu="V100-16GB")
@pytest.mark.parametrize("accumulated", [pytest.param(4, id="hf-bertlarge-fp16-gc-adafactor-bs1x4")])
def test_fp16_checkpointing_adafactor(accumulated: int, record_property: Record) -> None:
    from transformers.optimization import Adafactor

    model = BertClassifier(BertShape(checkpointing=True)).to("cuda")
    optimizer = Adafactor(model.parameters(), lr=5e-5, scale_parameter=False, relative_step=False)
    scaler = torch.amp.GradScaler("cuda")
    model.zero_grad(set_to_none=False)
    for _ in range(2):
        for _ in range(accumulated):
            training_step(model, accumulated, scaler)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)
    record_nvidia_smi(record_property)
