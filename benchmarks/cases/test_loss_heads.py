"""Losses, and output heads with a loss: PyTorch's side of two kernels' benchmarks.

linkedin/Liger-Kernel, benchmark/scripts/benchmark_*.py at the release that each published figure names; the
figures are in benchmark/data/all_benchmark_data.csv. apple/ml-cross-entropy's are in its README.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .models.loss_heads import (
    BFLOAT16,
    CosineHeads,
    CrossEntropyHead,
    DivergenceHeads,
    OddsRatioHead,
    PreferenceHeads,
    divergence,
    variation,
)
from .repeated_calls import (
    budget,
    cases,
    leaf,
    leave_workspaces,
    record_repeated,
    repeated_peak_bytes,
    trained,
)
from .steps import Record, start_step

WIDTH, VOCAB = 4096, 128_256


@budget("A100-80GB")
@cases("vocab", "liger-cross_entropy-huggingface-full-V{}-7947", [4096, 8192, 16384])
def test_cross_entropy(vocab: int, record_property: Record) -> None:
    loss = nn.CrossEntropyLoss()
    logits = leaf(8 * 2048, vocab)
    targets = torch.randint(vocab, (8 * 2048, 1), device="cuda").squeeze(1)
    record_repeated(record_property, lambda: trained(lambda: loss(logits, targets)))


@budget("A100-80GB")
@cases("rows", "liger-fused_linear_cross_entropy-huggingface-full-BT{}-3269", [32768])
def test_cross_entropy_head(rows: int, record_property: Record) -> None:
    leave_workspaces()
    ours = CrossEntropyHead(WIDTH, VOCAB).to("cuda")
    _theirs = CrossEntropyHead(WIDTH, VOCAB).to("cuda")  # Liger's has a head of its own, too
    x = leaf(rows, WIDTH, dtype=BFLOAT16)
    targets = torch.randint(VOCAB, (rows, 1), device="cuda").squeeze(1)
    record_repeated(record_property, lambda: trained(lambda: ours(x, targets)))


@budget("H100-80GB")
@cases("vocab", "liger-kl_div-torch-full-V{}-2193", [4096, 16384, 32768, 65536])
def test_kl_div(vocab: int, record_property: Record) -> None:
    loss = nn.KLDivLoss(reduction="batchmean")
    log_q = leaf(8 * 2048, vocab).log_softmax(dim=-1)
    p = torch.randn(8 * 2048, vocab, device="cuda").softmax(dim=-1)
    record_repeated(record_property, lambda: trained(lambda: loss(log_q, p), retain_graph=True))


@budget("H100-80GB")
@cases("vocab", "liger-jsd-torch-full-V{}-444", [4096, 8192, 16384, 65536])
def test_jsd(vocab: int, record_property: Record) -> None:
    log_q = leaf(4 * 2048, vocab).log_softmax(dim=-1)
    log_p = torch.randn(4 * 2048, vocab, device="cuda").log_softmax(dim=-1)
    record_repeated(record_property, lambda: trained(lambda: divergence(log_q, log_p), retain_graph=True))


@budget("H100-80GB")
@cases("vocab", "liger-tvd-torch-full-V{}-8304", [4096, 131072])
def test_tvd(vocab: int, record_property: Record) -> None:
    p = F.softmax(leaf(8 * 2048, vocab), dim=-1)
    q = torch.randn(8 * 2048, vocab, device="cuda").softmax(dim=-1)
    record_repeated(record_property, lambda: trained(lambda: variation(p, q), retain_graph=True))


@budget("H100-80GB")
@cases("rows", "liger-fused_linear_jsd-torch-full-BT{}-7863", [1024])
def test_divergence_heads(rows: int, record_property: Record) -> None:
    leave_workspaces()
    heads = DivergenceHeads(WIDTH, VOCAB).to("cuda")  # Liger's shares its two weights

    def inputs(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        student = torch.rand(rows, WIDTH, requires_grad=True, dtype=BFLOAT16, device="cuda")
        return student, torch.rand(rows, WIDTH, dtype=BFLOAT16, device="cuda")

    trained(lambda: heads(*inputs(8192)))  # the speed benchmark's largest: its segments stay in the cache
    heads.zero_grad()
    student, teacher = inputs(rows)
    record_repeated(record_property, lambda: trained(lambda: heads(student, teacher)))


@budget("A100-80GB")
@cases("batch", "liger-fused_linear_orpo_loss-huggingface-full-B{}-5673", [4, 16])
def test_orpo(batch: int, record_property: Record) -> None:
    leave_workspaces()
    record_property("growth_bytes", -odds_ratio_peak_bytes(2) + odds_ratio_peak_bytes(batch))


def odds_ratio_peak_bytes(batch: int) -> int:
    ours, _theirs = (OddsRatioHead(WIDTH, VOCAB).to("cuda") for _ in range(2))
    x = leaf(batch, 1024, WIDTH, dtype=BFLOAT16)
    targets = torch.randint(VOCAB, (batch, 1024), device="cuda")
    return repeated_peak_bytes(lambda: trained(lambda: ours(x, targets)))


@budget("H100-80GB")
@cases("batch", "liger-kto_loss-huggingface-full-B{}-6899", [16, 32])
def test_kto(batch: int, record_property: Record) -> None:
    leave_workspaces()
    record_property("growth_bytes", -preference_peak_bytes(4) + preference_peak_bytes(batch))


def preference_peak_bytes(batch: int) -> int:
    ours, _theirs = (PreferenceHeads(1024, VOCAB).to("cuda") for _ in range(2))
    x = torch.randn(batch, 512, 1024, device="cuda", dtype=BFLOAT16)
    targets = torch.randint(VOCAB, (batch, 512), device="cuda")
    preferred = torch.arange(batch, device="cuda") % 2 == 0  # drawn, in the original
    kl = torch.randn(1, device="cuda", dtype=BFLOAT16)
    reference = torch.randn(batch, 512, 1024, device="cuda", dtype=BFLOAT16)
    return repeated_peak_bytes(lambda: trained(lambda: ours(x, reference, targets, preferred, kl)[0]))


@budget("A100-80GB")
@cases("rows", "liger-distill_cosine_loss-torch-full-BT{}-8969", [8192])
def test_cosine_heads(rows: int, record_property: Record) -> None:
    leave_workspaces()
    ours, _theirs = (CosineHeads(WIDTH, VOCAB).to("cuda") for _ in range(2))
    drawn = torch.rand(rows, WIDTH // 2, device="cuda", dtype=BFLOAT16)
    _for_theirs, student = (drawn.detach().clone().requires_grad_(True) for _ in range(2))
    teacher = torch.rand(rows, WIDTH, device="cuda", dtype=BFLOAT16)
    targets = torch.randint(0, VOCAB, (rows,), device="cuda")
    record_repeated(record_property, lambda: trained(lambda: ours(student, teacher, targets)))


@budget("A100-80GB")
@pytest.mark.parametrize("softcap", [pytest.param(30.0, id="cce-gemma2-2b-loss")])
def test_gemma_loss(softcap: float, record_property: Record) -> None:
    """apple/ml-cross-entropy at d42911f, ``baseline`` of benchmark/__main__.py."""
    embedding, classifier = (leaf(rows, 2304, dtype=BFLOAT16) for rows in (8192, 256_000))
    targets = torch.randint(256_000, (8192,), device="cuda")

    def loss() -> torch.Tensor:
        logits = embedding @ classifier.T
        logits = torch.tanh(logits / softcap) * softcap
        return F.cross_entropy(logits.float(), targets)

    for kind in ("warm_up", "forward", "backward", "both"):
        embedding.grad = classifier.grad = None
        start_step()
        before = torch.cuda.memory_allocated()
        output = loss()
        if kind == "backward":
            start_step()
            before = torch.cuda.memory_allocated()
        if kind != "forward":
            output.backward()
        record_property(f"{kind}_increase_bytes", torch.cuda.max_memory_allocated() - before)
        del output
