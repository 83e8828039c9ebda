"""Pre-training a small Llama and generating with a large one, as torchao's benchmarks do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from .models.gpt_fast import GptFast, GptFastShape, generate

LLAMA2_1B = GptFastShape(24, 1536, 24, 24, 6144, 32_000, 2048, checkpointing=True)
LLAMA31_8B = GptFastShape(32, 4096, 32, 8, 14_336, 128_256, 131_072)

#: All of TinyStoriesV2-GPT4-train lies on the device, as uint16. Its count with Llama 2's tokenizer is not
#: published; assumed is the count with a vocabulary of 10,000, as solutions of Stanford's CS336 report it.
TINY_STORIES_TOKENS = 541_229_347


@pytest.mark.mem_budget(gpu="RTX-4080")
@pytest.mark.parametrize(
    "compiled",
    [
        pytest.param(False, id="ao-llama2-1b-bf16-eager"),
        pytest.param(True, id="ao-llama2-1b-bf16-compile"),
    ],
)
def test_pretraining(compiled: bool) -> None:
    """benchmarks/quantized_training/pretrain_llama2.py --model 1B --activation_checkpointing."""
    model = GptFast(LLAMA2_1B).bfloat16().cuda()
    with torch.device("cuda"):
        model.setup_caches(4, 2048, training=True)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    data = torch.empty(TINY_STORIES_TOKENS, dtype=torch.uint16, device="cuda")

    def get_loss(batch: torch.Tensor) -> torch.Tensor:
        logits = model(batch)[:, :-1].float().flatten(0, 1)
        labels = batch[:, 1:].flatten()
        return F.cross_entropy(logits, labels)

    loss_of = torch.compile(get_loss) if compiled else get_loss
    for _ in range(2):
        batch = data[: 4 * 2048].view(4, 2048).long()
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gpu="A6000")
@pytest.mark.parametrize("new_tokens", [pytest.param(200, id="ao-infer-base-bf16-llama-3.1-8b")])
def test_generating(new_tokens: int) -> None:
    """torchao/_models/llama/generate.py: one of its five samples, which are alike."""
    with torch.device("meta"):
        model = GptFast(LLAMA31_8B)
    model = model.bfloat16().to_empty(device="cuda").eval()
    prompt = torch.zeros(6, dtype=torch.int).cuda()
    generate(model, prompt, new_tokens, decoded=8)
