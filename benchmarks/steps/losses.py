"""Output heads over large vocabularies, and their losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..cases.models.loss_heads import CrossEntropyHead, DivergenceHeads
from ..cases.models.torchtune_llama import LlamaShape, TorchtuneLlama, loss_of
from .training import on_cuda, tokens, trained


def cross_entropy(rows: int, vocabulary: int) -> None:
    """A head in bfloat16 and cross entropy in its type."""
    with on_cuda():
        model = CrossEntropyHead(2048, vocabulary).cuda()
        x = torch.randn(rows, 2048, dtype=torch.bfloat16, requires_grad=True)
        labels = torch.randint(0, vocabulary, (rows,))
    trained(model, lambda: model(x, labels))


def divergence(rows: int, vocabulary: int) -> None:
    """Two heads, and the Jensen-Shannon divergence of them in float32."""
    model = DivergenceHeads(1024, vocabulary).cuda()
    with on_cuda(torch.bfloat16):
        student, teacher = torch.randn(rows, 1024), torch.randn(rows, 1024)
    trained(model, lambda: model(student, teacher))


def checkpointed_chunks(rows: int, vocabulary: int, chunks: int) -> None:
    """Cross entropy of a head chunk by chunk, the logits of each made anew in backward."""
    with on_cuda(torch.bfloat16):
        head = nn.Linear(2048, vocabulary, bias=False)
        x, labels = torch.randn(rows, 2048, requires_grad=True), torch.randint(0, vocabulary, (rows,))

    def part_loss(part: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(head(part).float(), wanted, reduction="sum")

    def loss() -> Tensor:
        total = torch.zeros((), device="cuda")
        for part, wanted in zip(x.chunk(chunks), labels.chunk(chunks), strict=True):
            total = total + checkpoint(part_loss, part, wanted, use_reentrant=False)
        return total / rows

    trained(head, loss)


def torchtune(length: int, chunks: int, checkpointing: bool) -> None:
    """torchtune's Llama 3.2 1B in bfloat16, its logits at once in float32, or in chunks."""
    shape = LlamaShape(16, 2048, 32, 8, 8192, 128_256, 4096, True, checkpointing, chunks)
    with on_cuda(torch.bfloat16):
        model = TorchtuneLlama(shape)
    ids = tokens(1, length, 128_256)
    trained(model, lambda: loss_of(model(ids), ids))
