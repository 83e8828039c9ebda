"""bitsandbytes: 8-bit and paged optimizers, and linear layers with 4-bit and 8-bit weights."""

import pytest
import torch
from torch import nn

bnb = pytest.importorskip("bitsandbytes")

WIDTH = 1024


def feed_forward():
    with torch.device("cuda"):
        return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


def train(optimizer_class):
    model = feed_forward()
    optimizer = optimizer_class(model.parameters(), lr=1e-3)
    for _ in range(2):
        model(torch.randn(64, WIDTH, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("name", ["AdamW", "AdamW8bit", "Lion8bit", "AdEMAMix8bit"])
def test_optimizer(name):
    train(getattr(bnb.optim, name))


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("name", ["PagedAdamW8bit", "PagedAdamW32bit"])
def test_paged_optimizer(name):
    train(getattr(bnb.optim, name))


@pytest.mark.mem_budget(gib=0.3)
def test_an_override_of_single_parameters():
    manager = bnb.optim.GlobalOptimManager.get_instance()
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH))
    manager.register_parameters(model.parameters())
    model = model.cuda()
    optimizer = bnb.optim.Adam(model.parameters(), lr=0.001, optim_bits=8)
    manager.override_config(model[0].weight, "optim_bits", 32)
    model(torch.randn(64, WIDTH, device="cuda")).sum().backward()
    optimizer.step()


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize("tokens", [32, 2048])
@pytest.mark.parametrize("double", [False, True], ids=["nf4", "nf4-double"])
def test_linear_4bit(double, tokens):
    options = {
        "bias": False,
        "compute_dtype": torch.bfloat16,
        "compress_statistics": double,
        "quant_type": "nf4",
    }
    model = nn.Sequential(
        bnb.nn.Linear4bit(WIDTH, 4 * WIDTH, **options), bnb.nn.Linear4bit(4 * WIDTH, WIDTH, **options)
    )
    model = model.cuda()  # quantised here
    x = torch.randn(tokens, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    model(x).sum().backward()


@pytest.mark.mem_budget(gib=0.15)  # whether one number is above the threshold is not known
@pytest.mark.parametrize("threshold", [0.0, 6.0])
def test_linear_8bit(threshold):
    fp16_model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH))
    options = {"has_fp16_weights": False, "threshold": threshold}
    int8_model = nn.Sequential(
        bnb.nn.Linear8bitLt(WIDTH, 4 * WIDTH, **options), bnb.nn.Linear8bitLt(4 * WIDTH, WIDTH, **options)
    )
    int8_model.load_state_dict(fp16_model.state_dict())
    int8_model = int8_model.to(0)  # quantised here
    with torch.no_grad():
        int8_model(torch.randn(2048, WIDTH, device="cuda", dtype=torch.float16))


@pytest.mark.mem_budget(gib=0.3)
def test_qlora(tmp_path):
    transformers = pytest.importorskip("transformers")
    peft = pytest.importorskip("peft")
    pytest.importorskip("accelerate")
    config = transformers.LlamaConfig(
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=8192,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    quantisation = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=quantisation, device_map={"": 0}, dtype=torch.bfloat16
    )
    model = peft.prepare_model_for_kbit_training(model)
    adapters = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, adapters)
    optimizer = bnb.optim.PagedAdamW8bit(model.parameters(), lr=2e-4)
    model.train()
    for _ in range(2):
        tokens = torch.randint(0, 8192, (2, 256), device="cuda")
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
