"""Parts of torchtune's recipes: its Llama, LoRA and QLoRA, losses, the step in backward, offloading."""

import pytest
import torch
from torch import nn

pytest.importorskip("torchtune.training")

from torchtune import modules, training
from torchtune.models.llama3_1 import llama3_1, lora_llama3_1
from torchtune.modules.loss import CEWithChunkedOutputLoss
from torchtune.modules.peft import get_adapter_params, set_trainable_params

VOCABULARY, SEQUENCE = 8192, 256
SMALL = {
    "vocab_size": VOCABULARY,
    "num_layers": 2,
    "num_heads": 8,
    "num_kv_heads": 4,
    "embed_dim": 512,
    "max_seq_len": 512,
    "intermediate_dim": 1536,
}


def build(builder=llama3_1, **options):
    with training.set_default_dtype(torch.bfloat16), torch.device("cuda"):
        return builder(**SMALL, **options)


def batch():
    tokens = torch.randint(0, VOCABULARY, (2, SEQUENCE), device="cuda")
    ignored = torch.full((2, 1), -100, device="cuda")
    return tokens, torch.hstack((tokens[..., 1:], ignored))


def checkpointed(model):
    training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    return model


@pytest.mark.mem_budget(gib=0.3)
def test_full_fine_tuning():
    model = checkpointed(build())
    loss_fn = CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss_fn.num_output_chunks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    for _ in range(2):
        tokens, labels = batch()
        logits = model(tokens)
        loss = loss_fn(logits, labels)
        del logits
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.mem_budget(gib=0.3)
def test_the_step_in_backward():
    model = build()
    optimizers = {parameter: torch.optim.AdamW([parameter], lr=2e-5) for parameter in model.parameters()}
    training.register_optim_in_bwd_hooks(model=model, optim_dict=optimizers)
    wrapper = training.create_optim_in_bwd_wrapper(model=model, optim_dict=optimizers)
    for _ in range(2):
        tokens, labels = batch()
        loss = nn.functional.cross_entropy(model(tokens).float().flatten(0, 1), labels.flatten())
        loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert wrapper.get_optim_key("lr") == 2e-5


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("offloaded", [False, True])
def test_activation_offloading(offloaded):
    model = checkpointed(build())
    context = training.get_act_offloading_ctx_manager(model, offloaded)
    for _ in range(2):
        tokens, labels = batch()
        with context:
            logits = model(tokens)
        nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten()).backward()


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("quantised", [False, True], ids=["lora", "qlora"])
def test_adapters(quantised):
    model = build(
        lora_llama3_1,
        lora_attn_modules=["q_proj", "v_proj"],
        apply_lora_to_mlp=True,
        lora_rank=8,
        lora_alpha=16,
        quantize_base=quantised,
    )
    set_trainable_params(model, get_adapter_params(model))
    adapters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=3e-4, fused=True)
    for _ in range(2):
        tokens, labels = batch()
        nn.functional.cross_entropy(model(tokens).float().flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
