"""Knowledge distillation on one GPU: an 8B teacher, a 3B student, one sequence of 2,048 tokens.

By hand, bf16 (2 bytes), GiB = 2**30 bytes:

    student's parameters      3,212,749,824 x 2    5.98
    student's AdamW moments   two of them         11.97
    teacher's parameters      8,030,261,248 x 2   14.96    frozen: no gradients, no moments
                                                  -----
    resident                                      32.91
    student's gradients                            5.98
    AdamW's own temporaries   foreach              5.98
                                                  -----
    in optimizer.step()                           44.88

The step's gradients and temporaries come when the activations are gone, so the other candidate is backward:
32.91, the student's activations, and of 2,048 x 128,256 logits three fp32 tensors that the loss saved (0.98
each) and their gradients. The teacher saves none, it runs under no_grad. Both candidates are within 1% of
each other here: fused=True alone would gain next to nothing, and a longer sequence peaks in backward.
"""

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from pytest_membudget.steps import distillation_step

TEACHER = LlamaConfig(
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
    tie_word_embeddings=False,
)
STUDENT = LlamaConfig(
    vocab_size=128_256,
    hidden_size=3072,
    intermediate_size=8192,
    num_hidden_layers=28,
    num_attention_heads=24,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
    tie_word_embeddings=True,
)


@pytest.mark.mem_budget(gib=47.5)
def test_distilling_8b_into_3b():
    with torch.device("cuda"):
        teacher = AutoModelForCausalLM.from_config(TEACHER, dtype=torch.bfloat16)
        student = AutoModelForCausalLM.from_config(STUDENT, dtype=torch.bfloat16)
    teacher.requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(student.parameters())

    for _ in range(2):  # the first step creates the optimizer's states, the second runs with them
        tokens = torch.randint(0, 128_256, (1, 2048), device="cuda")
        batch = {"input_ids": tokens, "labels": tokens, "use_cache": False}
        distillation_step(student, teacher, optimizer, batch, chunks=8)
