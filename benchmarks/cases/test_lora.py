"""Low-rank adapters on one GPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from .models.four_bits import FourBitLinear
from .models.lit_gpt import LitConfig, LitGPT, MakeLinear, chunked_cross_entropy

PHI = LitConfig(
    layers=24, heads=32, width=2048, hidden=8192, vocabulary=51_200, rotary=0.5, shared_norm=True,
    head_bias=True, gelu="tanh",
)  # fmt: skip
STABLELM = LitConfig(layers=16, heads=32, width=4096, hidden=16_384, vocabulary=50_688)
LLAMA_7B = LitConfig(
    layers=32, heads=32, width=4096, hidden=11_008, vocabulary=32_000, rotary=1.0, llama=True
)
LLAMA_13B = LitConfig(
    layers=40, heads=40, width=5120, hidden=13_824, vocabulary=32_000, rotary=1.0, llama=True
)

NF4: MakeLinear = partial(FourBitLinear, twice=False)
NF4_DQ: MakeLinear = partial(FourBitLinear, twice=True)


def whole(inputs: int, outputs: int, bias: bool) -> nn.Module:
    return nn.Linear(inputs, outputs, bias=bias)


def case(id: str, *values: object) -> object:
    return pytest.param(*values, id=id)


@pytest.mark.mem_budget(gpu="A100-40GB")
@pytest.mark.parametrize(
    ("config", "linear", "batch", "tokens"),
    [
        case("litgpt-lora-phi-1.5-none-mb2", PHI, whole, 2, 1044),
        case("litgpt-lora-phi-1.5-nf4-mb1", PHI, NF4, 1, 1044),
        case("litgpt-lora-phi-1.5-nf4-dq-mb1", PHI, NF4_DQ, 1, 1044),
        case("litgpt-lora-StableLM_Alpha_3B-none-mb1", STABLELM, whole, 1, 1034),
        case("litgpt-lora-StableLM_Alpha_3B-none-mb4", STABLELM, whole, 4, 1034),
        case("litgpt-lora-StableLM_Alpha_3B-nf4-mb1", STABLELM, NF4, 1, 1034),
        case("litgpt-lora-Llama_2_7B-none-mb1", LLAMA_7B, whole, 1, 1304),
        case("litgpt-lora-Llama_2_7B-none-mb2", LLAMA_7B, whole, 2, 1304),
        case("litgpt-lora-Llama_2_7B-nf4-dq-mb1", LLAMA_7B, NF4_DQ, 1, 1304),
        case("litgpt-lora-Llama_2_13B-none-mb1", LLAMA_13B, whole, 1, 1304),
    ],
)
def test_lit_gpt(config: LitConfig, linear: MakeLinear, batch: int, tokens: int) -> None:
    """The first iteration of finetune/lora.py: it has the longest sample of the data, and sets the peak."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LitGPT(config, linear, tokens)
    torch.set_default_dtype(torch.float32)

    input_ids = torch.zeros(batch, tokens, dtype=torch.int64).cuda()
    targets = torch.zeros(batch, tokens, dtype=torch.int64).cuda()
    # Fabric hands outputs on in torch's default type (HalfPrecision.convert_output)
    logits = [part.float() for part in model(input_ids, chunk=128)]
    logits[-1] = logits[-1][..., :-1, :]
    loss = chunked_cross_entropy(logits, targets[..., 1:])
    (loss / (128 // batch)).backward()
