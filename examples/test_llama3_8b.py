"""Full fine-tuning of Llama 3 8B on one GPU: what the optimizer's kernel and the batch cost.

8,030,261,248 parameters in bf16 are 15.0 GiB. Gradients take as much again, AdamW's two moments twice as
much: 59.8 GiB before any activation. The default AdamW works on whole lists of tensors (foreach) and holds
one more copy of the parameters' size while it steps, 74.8 GiB in all; fused=True does not. With two
sequences a batch the activations and logits in backward outgrow even that, and fused=True no longer helps.
"""

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

LLAMA3_8B = LlamaConfig(
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
    tie_word_embeddings=False,
    use_cache=False,
)


@pytest.mark.parametrize(
    ("batch_size", "fused"),
    [
        pytest.param(1, False, id="batch-1-foreach", marks=pytest.mark.mem_budget(gib=78)),
        pytest.param(1, True, id="batch-1-fused", marks=pytest.mark.mem_budget(gib=64)),
        pytest.param(2, False, id="batch-2-foreach", marks=pytest.mark.mem_budget(gib=79)),
        pytest.param(2, True, id="batch-2-fused", marks=pytest.mark.mem_budget(gib=79)),
    ],
)
def test_full_fine_tuning(batch_size, fused):
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(LLAMA3_8B, dtype=torch.bfloat16, attn_implementation="sdpa")
    assert sum(parameter.numel() for parameter in model.parameters()) == 8_030_261_248
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused or None)

    for _ in range(2):  # the first step creates the optimizer's states, the second runs with them
        tokens = torch.randint(0, 128_256, (batch_size, 2048), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
