"""Adapters of Hugging Face ``peft``, as their users write their tests."""

import pytest

pytest.importorskip("peft")

import torch
from peft import (
    AutoPeftModelForCausalLM,
    IA3Config,
    LoraConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    TaskType,
    VeraConfig,
    get_peft_model,
)
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, SEQUENCE, BATCH = 8192, 256, 4
SMALL = LlamaConfig(
    hidden_size=512,
    intermediate_size=1536,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=VOCABULARY,
    max_position_embeddings=2 * SEQUENCE,
)
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "task_type": TaskType.CAUSAL_LM}


def train(model, steps=2):
    model = model.to("cuda").train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4)
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), device="cuda")
    for _ in range(steps):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def base():
    return LlamaForCausalLM(SMALL).to(torch.bfloat16)


@pytest.mark.mem_budget(gib=1)
def test_lora_of_attention():
    model = get_peft_model(base(), LoraConfig(**LORA, target_modules=["q_proj", "v_proj"]))
    model.print_trainable_parameters()
    train(model)


@pytest.mark.mem_budget(gib=1)
def test_lora_of_all_linear_layers():
    train(get_peft_model(base(), LoraConfig(**LORA, target_modules="all-linear", use_rslora=True)))


@pytest.mark.mem_budget(gib=1)
def test_dora():
    train(get_peft_model(base(), LoraConfig(**LORA, target_modules="all-linear", use_dora=True)))


@pytest.mark.mem_budget(gib=1)
def test_lora_with_a_head_of_its_own_and_checkpointing():
    model = base()
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    config = LoraConfig(**LORA, target_modules=["q_proj", "v_proj"], modules_to_save=["lm_head"])
    train(get_peft_model(model, config))


@pytest.mark.mem_budget(gib=1)
def test_an_adapter_saved_loaded_and_merged(tmp_path):
    base().save_pretrained(tmp_path / "base")
    model = LlamaForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(**LORA, target_modules=["q_proj", "v_proj"]))
    model = train(model)
    model.save_pretrained(tmp_path / "adapter")
    del model

    model = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter", dtype=torch.bfloat16).to("cuda")
    tokens = torch.zeros(1, SEQUENCE, dtype=torch.long, device="cuda")
    with torch.no_grad():
        adapted = model(input_ids=tokens).logits
        with model.disable_adapter():
            assert model(input_ids=tokens).logits.shape == adapted.shape
        model = model.merge_and_unload()
        assert model(input_ids=tokens).logits.shape == (1, SEQUENCE, VOCABULARY)
    assert not any("lora" in name for name, _ in model.named_parameters())


@pytest.mark.mem_budget(gib=1)
@pytest.mark.parametrize(
    "config",
    [
        IA3Config(task_type=TaskType.CAUSAL_LM),
        VeraConfig(task_type=TaskType.CAUSAL_LM, r=64, target_modules=["q_proj", "o_proj"]),
        PrefixTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=16),
        PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=16),
    ],
    ids=["ia3", "vera", "prefix", "prompt"],
)
def test_other_adapters(config):
    train(get_peft_model(base(), config))
