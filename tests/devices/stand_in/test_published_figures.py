"""Whole steps against figures that others have published or recorded, or that follow from arithmetic by hand.

Sources: the Llama figures are 2 bytes a parameter times the copies that AdamW holds (arithmetic), the
totals and GPT-2's were traced by other means, with the same shapes, before this package was written;
ViT-L/16's are those of PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward
pass". Cross entropy by itself: linkedin/Liger-Kernel, benchmark/data/all_benchmark_data.csv (0.2.1, A100,
PyTorch's own, batch 8 of 2,048 tokens, fp32, forward and backward again and again on one input), in MiB and
good to 1 KiB up to 16,384 MiB: published as numbers of fp32. The recording of attention:
silmont2000/assignment2-systems at 133f064, cs336_systems/trace_peak_memory.py, naive softmax attention over
Q, K, V of [8, 4096, 16] in fp32, forward and backward from an empty allocator; its peaks, of blocks and of
segments: 3,098.626 and 3,606 MiB. It holds two cuBLAS workspaces to its end.
"""

import contextlib
import sys
from pathlib import Path

import pytest
import torch

from pytest_membudget.devices.torch_parts import torch_release

pytestmark = pytest.mark.slow

MIB, GIB = 2**20, 2**30
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
    assert not traced.assumptions


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


def repeated_cross_entropy(vocab, times):
    logits = torch.randn(8 * 2048, vocab, requires_grad=True, device="cuda")
    targets = torch.randint(vocab, (8 * 2048, 1), device="cuda").squeeze(1)
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(times):
        y = loss(logits, targets)
        y.backward()


@pytest.mark.parametrize(
    ("vocab", "mib"), [(4096, 1280.1259765625), (8192, 2560.1259765625), (16384, 5120.1259765625)]
)
def test_cross_entropy_is_the_published_figure(trace, vocab, mib):
    """Five copies of the logits (the first time four: no gradient is kept yet), the targets, two blocks."""
    copy_bytes, rest_bytes = 8 * 2048 * vocab * 4, 8 * 8 * 2048 + 2 * 512

    assert trace(repeated_cross_entropy, vocab, 3).allocated == 5 * copy_bytes + rest_bytes == mib * MIB
    assert trace(repeated_cross_entropy, vocab, 1).allocated == 4 * copy_bytes + rest_bytes


def naive_attention():
    query, key, value = (torch.randn(8, 4096, 16, device="cuda", requires_grad=True) for _ in range(3))
    output = attend(query, key, value)  # the recorded script keeps it, too
    output.sum().backward()


def attend(query, key, value):
    scores = torch.einsum("bqd,bkd->bqk", query, key) / 16**0.5
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return torch.einsum("bqk,bkd->bqd", weights, value)


@pytest.mark.skipif(torch_release() >= (2, 15), reason="torch 2.15 keeps no cuBLAS workspaces: not the run")
def test_naive_attention_from_an_empty_allocator_is_as_recorded(trace):
    traced = trace(naive_attention)

    assert traced.report.peak["allocated"] / MIB == pytest.approx(3098.626, abs=0.001)
    assert traced.report.peak["reserved"] == 3606 * MIB
