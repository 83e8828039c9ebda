"""Liger's Triton kernels: the fused linear cross entropy, a patched Llama, single layers."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton")
pytest.importorskip("liger_kernel.transformers")
pytest.importorskip("transformers")

from liger_kernel.transformers import (
    LigerCrossEntropyLoss,
    LigerFusedLinearCrossEntropyLoss,
    LigerLayerNorm,
    LigerRMSNorm,
    apply_liger_kernel_to_llama,
)

TOKENS, HIDDEN, VOCABULARY = 2048, 512, 32000


@pytest.mark.mem_budget(gib=0.2)
def test_fused_linear_cross_entropy():
    head = nn.Linear(HIDDEN, VOCABULARY, bias=False, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(0, VOCABULARY, (TOKENS,), device="cuda")
    loss = LigerFusedLinearCrossEntropyLoss()(head.weight, x, target)
    loss.backward()


@pytest.mark.mem_budget(gib=1)
@pytest.mark.parametrize("patched", [False, True])
def test_llama(patched):
    if patched:
        apply_liger_kernel_to_llama()
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=VOCABULARY,
    )
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        tokens = torch.randint(0, VOCABULARY, (4, TOKENS // 8), device="cuda")
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.1)
def test_layers_and_loss():
    norms = nn.Sequential(LigerRMSNorm(HIDDEN), LigerLayerNorm(HIDDEN)).cuda()
    x = torch.randn(TOKENS, HIDDEN, device="cuda", requires_grad=True)
    target = torch.randint(0, HIDDEN, (TOKENS,), device="cuda")
    LigerCrossEntropyLoss()(norms(x), target).backward()
