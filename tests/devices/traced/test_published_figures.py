"""Whole training steps against figures that others have published, or that follow from arithmetic by hand.

Sources: the Llama figures are 2 bytes a parameter times the copies that AdamW holds (arithmetic), the
totals and GPT-2's were traced by other means, with the same shapes, before this package was written;
ViT-L/16's are those of PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward
pass".
"""

import contextlib
import sys
from pathlib import Path

import pytest
import torch

GIB = 2**30
LLAMA_PARAMETERS = 8_030_261_248
EXAMPLES = Path(__file__).parents[3] / "examples"


def llama_8b(fused):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, use_cache=False,
    )  # fmt: skip
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    tokens = torch.randint(0, 128256, (1, 2048), device="cuda")
    for _ in range(2):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return sum(parameter.numel() for parameter in model.parameters())


def test_llama_8b_with_adamws_default_peaks_in_the_optimizer_step(trace):
    pytest.importorskip("transformers")

    traced = trace(llama_8b, None, gpu="H100-80GB")

    assert traced.value == LLAMA_PARAMETERS
    assert traced.parameters == 2 * LLAMA_PARAMETERS
    assert traced.gradients == 2 * LLAMA_PARAMETERS
    assert traced.optimizer_states == 4 * LLAMA_PARAMETERS
    assert traced.temporaries == 2 * LLAMA_PARAMETERS  # foreach's list of square roots
    assert traced.allocated / GIB == pytest.approx(74.8, rel=0.005)
    assert not traced.report.assumptions


def test_llama_8b_with_fused_adamw_peaks_in_backward(trace):
    pytest.importorskip("transformers")

    traced = trace(llama_8b, True, gpu="H100-80GB")

    # a parameter's step count is a number of 4 bytes on the device
    assert traced.optimizer_states == pytest.approx(4 * LLAMA_PARAMETERS, abs=291 * 4)
    assert traced.allocated / GIB == pytest.approx(60.9, rel=0.03)


def gpt2_124m(dtype, math_attention):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False, attn_implementation="sdpa")  # dropout 0.1 by default
    model = GPT2LMHeadModel(config).to(device="cuda", dtype=getattr(torch, dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 50257, (8, 1024), device="cuda")
    for _ in range(2):
        with sdpa_kernel(SDPBackend.MATH) if math_attention else contextlib.nullcontext():
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    ("dtype", "math_attention", "gib"),
    [("float32", False, 14.1), ("float32", True, 24.2), ("bfloat16", False, 9.4)],
    ids=["fp32-efficient", "fp32-math", "bf16-flash"],
)
def test_gpt2_by_attention_kernel(trace, dtype, math_attention, gib):
    pytest.importorskip("transformers")

    traced = trace(gpt2_124m, dtype, math_attention)

    assert traced.allocated / GIB == pytest.approx(gib, rel=0.03)


def vit_l16(in_backward):
    sys.path.insert(0, str(EXAMPLES))
    from models.vit import VisionTransformer, ViTConfig

    model = VisionTransformer(ViTConfig()).cuda()
    parameters = list(model.parameters())
    if in_backward:
        optimizers = {parameter: torch.optim.Adam([parameter]) for parameter in parameters}

        def step(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(step)
    else:
        optimizer = torch.optim.Adam(parameters)
    image = torch.rand(1, 3, 224, 224, device="cuda")
    for _ in range(2):
        model(image).sum().backward()
        if not in_backward:
            optimizer.step()
            optimizer.zero_grad()
    return sum(parameter.numel() for parameter in parameters)


def test_vit_l16_takes_five_copies_of_its_parameters(trace):
    """1.2 GB of parameters, as much of gradients and of foreach temporaries, 2.4 GB of states."""
    traced = trace(vit_l16, False)

    copy_bytes = 4 * 304_326_632
    assert traced.value == 304_326_632
    assert traced.parameters == traced.temporaries == copy_bytes
    # the class token's gradient is a row of the gradient of all 197, and keeps the whole of it
    assert traced.gradients == copy_bytes + 196 * 1024 * 4
    assert traced.optimizer_states == 2 * copy_bytes
    assert traced.allocated / 1e9 == pytest.approx(6.1, abs=0.1)


def test_vit_l16s_step_in_backward_saves_a_third(trace):
    after, within = trace(vit_l16, False), trace(vit_l16, True)

    assert within.allocated / after.allocated == pytest.approx(4 / 6, rel=0.05)
    assert within.gradients < after.gradients / 20
