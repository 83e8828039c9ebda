"""Small steps of transformers 4.40 to 5; a model that a release does not have is skipped."""

import pytest
import torch
import transformers

pytestmark = pytest.mark.mem_budget(gib=70)

SIZES = {"vocab_size": 16000, "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 512}
ENCODER = {**SIZES, "intermediate_size": 1536}
DECODER = {**ENCODER, "num_key_value_heads": 4, "use_cache": False, "pad_token_id": 0}
GPT2 = {"vocab_size": 16000, "n_embd": 512, "n_layer": 2, "n_head": 8, "use_cache": False}
DISTILBERT = {"vocab_size": 16000, "dim": 512, "n_layers": 2, "n_heads": 8, "hidden_dim": 1536}
T5 = {"vocab_size": 16000, "d_model": 512, "d_ff": 1024, "num_layers": 2, "num_heads": 8, "use_cache": False}
CAUSAL = {
    "Llama": DECODER,
    "Mistral": DECODER,
    "Gemma2": {**DECODER, "head_dim": 64, "sliding_window": 256},
    "Mixtral": {**DECODER, "num_local_experts": 4, "output_router_logits": True},
    "GPT2": GPT2,
    "GPTNeoX": {**ENCODER, "use_cache": False},
    "OPT": {**SIZES, "ffn_dim": 1536, "word_embed_proj_dim": 512, "use_cache": False},
    "Qwen2": {**DECODER, "use_sliding_window": True, "sliding_window": 256},
    "Gemma": {**DECODER, "head_dim": 64},
    "Phi": DECODER,
    "StableLm": DECODER,
    "Cohere": DECODER,
    "Qwen2Moe": {**DECODER, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 512},
    "Bloom": {"vocab_size": 16000, "hidden_size": 512, "n_layer": 2, "n_head": 8},
    "Falcon": {**SIZES, "use_cache": False},
    "GPTBigCode": GPT2,
    "BioGpt": ENCODER,
    "XGLM": {"vocab_size": 16000, "d_model": 512, "ffn_dim": 1536, "num_layers": 2, "attention_heads": 8},
    "CodeGen": {**GPT2, "rotary_dim": 32},
    "Mpt": {"vocab_size": 16000, "d_model": 512, "n_layers": 2, "n_heads": 8},
}
MASKED = {"Bert": ENCODER, "DistilBert": DISTILBERT, "ModernBert": {**ENCODER, "pad_token_id": 0}}
IMAGES = {"ViT": {"num_hidden_layers": 4}, "Swin": {}, "Dinov2": {"num_hidden_layers": 4}}


def config_of(name, values):
    kind = getattr(transformers, f"{name}Config", None)
    if kind is None:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    return kind(**values)


def causal(name, *, use_cache=False, **options):
    config = config_of(name, {**CAUSAL[name], "use_cache": use_cache})
    return transformers.AutoModelForCausalLM.from_config(config, **options)


def tokens(batch=4, length=512):
    return torch.randint(1, 16000, (batch, length), device="cuda")


def train(model, batch):
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch()).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def text(batch=4):
    return {"input_ids": tokens(batch), "labels": tokens(batch)}


def text_and_mask():
    return {**text(), "attention_mask": torch.ones(4, 512, dtype=torch.long, device="cuda")}


@pytest.mark.parametrize("name", CAUSAL)
def test_causal(name):
    train(causal(name), text)


@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_causal_with_checkpoints(name):
    model = causal(name, torch_dtype=torch.bfloat16)
    model.gradient_checkpointing_enable()
    train(model, lambda: text(8))


@pytest.mark.parametrize("name", ["Llama", "Gemma2"])
def test_causal_eager(name):
    train(causal(name, attn_implementation="eager"), text_and_mask)


@pytest.mark.parametrize("name", ["Llama", "Gemma2"])
def test_generate(name):
    model = causal(name, use_cache=True, torch_dtype=torch.bfloat16).cuda().eval()
    mask = torch.ones(8, 1024, dtype=torch.long, device="cuda")
    model.generate(tokens(8, 1024), attention_mask=mask, max_new_tokens=8, min_new_tokens=8, do_sample=False)


def test_forward():
    model = causal("Llama", torch_dtype=torch.bfloat16).cuda().eval()
    with torch.no_grad():
        model(tokens(8, 1024))


@pytest.mark.parametrize("name", MASKED)
def test_masked(name):
    train(transformers.AutoModelForMaskedLM.from_config(config_of(name, MASKED[name])), text_and_mask)


def test_t5():
    config = transformers.T5Config(**T5, decoder_start_token_id=0)
    train(
        transformers.T5ForConditionalGeneration(config),
        lambda: {"input_ids": tokens(), "labels": tokens(4, 256)},
    )


@pytest.mark.parametrize("name", IMAGES)
def test_image_classification(name):
    model = transformers.AutoModelForImageClassification.from_config(config_of(name, IMAGES[name]))
    labels = torch.zeros(8, dtype=torch.long, device="cuda")
    train(model, lambda: {"pixel_values": torch.randn(8, 3, 224, 224, device="cuda"), "labels": labels})
