"""Small steps of adapters of peft 0.10 to 0.13, on a bf16 Llama of transformers."""

import peft
import pytest
import torch
import transformers

pytestmark = pytest.mark.mem_budget(gib=70)

LLAMA = {
    "vocab_size": 16000,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "use_cache": False,
    "pad_token_id": 0,
}
LORA = {
    "r": 16,
    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}
ADAPTERS = {
    "LoRA": (peft.LoraConfig, LORA),
    "LoRA with dropout": (peft.LoraConfig, {**LORA, "lora_dropout": 0.1}),
    "DoRA": (peft.LoraConfig, {**LORA, "use_dora": True}),
    "IA3": (
        peft.IA3Config,
        {"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]},
    ),
    "LoHa": (peft.LoHaConfig, {"r": 8, "target_modules": ["q_proj", "v_proj"]}),
    "prompt": (peft.PromptTuningConfig, {"num_virtual_tokens": 16}),
}


@pytest.mark.parametrize("autocasts", [True, False], ids=["autocast", "without autocast"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_adapter(name, autocasts):
    config, values = ADAPTERS[name]
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.LlamaConfig(**LLAMA), torch_dtype=torch.bfloat16
    )
    adapted = peft.get_peft_model(model, config(task_type="CAUSAL_LM", **values)).cuda().train()
    optimizer = torch.optim.AdamW([one for one in adapted.parameters() if one.requires_grad], fused=True)
    for _ in range(2):
        tokens = torch.randint(1, 16000, (4, 512), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocasts):
            loss = adapted(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
