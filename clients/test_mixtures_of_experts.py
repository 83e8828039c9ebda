"""Mixtures of experts of ``transformers``, as its users write their tests: experts in a loop and grouped."""

import pytest

pytest.importorskip("transformers")

import torch
from transformers import AutoModelForCausalLM, DeepseekV3Config, MixtralConfig, Qwen3MoeConfig

import pytest_membudget

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "num_hidden_layers": 2,
    "vocab_size": 2048,
}
MODELS = {
    "mixtral": MixtralConfig(**SIZES, num_local_experts=8, num_experts_per_tok=2),
    "qwen3": Qwen3MoeConfig(**SIZES, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=128),
    "deepseek-v3": DeepseekV3Config(
        **SIZES,
        n_routed_experts=16,
        num_local_experts=16,
        num_experts_per_tok=4,
        moe_intermediate_size=128,
        first_k_dense_replace=1,
        n_group=4,
        topk_group=2,
        q_lora_rank=64,
        kv_lora_rank=64,
        qk_rope_head_dim=16,
        qk_nope_head_dim=32,
        v_head_dim=32,
    ),
}


def train(name, implementation, checkpointing=False):
    model = AutoModelForCausalLM.from_config(
        MODELS[name], dtype=torch.bfloat16, experts_implementation=implementation
    ).cuda()
    if checkpointing:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        tokens = torch.randint(0, 2048, (2, 512), device="cuda")
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("name", MODELS)
def test_experts_in_a_loop_at_worst(name):
    train(name, "eager")


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("name", MODELS)
@pytest_membudget.assume(routing="balanced")
def test_experts_in_a_loop_balanced(name):
    train(name, "eager")


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("name", MODELS)
def test_grouped_experts(name):
    train(name, None)


@pytest.mark.mem_budget(gib=0.3)
def test_experts_in_a_loop_recomputed():
    train("mixtral", "eager", checkpointing=True)
