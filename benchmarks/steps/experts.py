"""Mixtures of experts: with a capacity, as loops over experts, and as transformers has them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .training import language_loss, on_cuda, tokens, trained


class CapacityExperts(nn.Module):
    """Experts that each take as many tokens as the others: those that lean to them most."""

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is (tokens, width)."""
        scores = self.router(x).float().softmax(-1)
        capacity = 2 * x.shape[0] // scores.shape[1]
        weights, chosen = scores.t().topk(capacity, dim=-1)
        hidden = F.gelu(torch.bmm(x[chosen], self.up))
        out = torch.bmm(hidden, self.down) * weights.unsqueeze(-1).to(x.dtype)
        return x + torch.zeros_like(x).index_add(0, chosen.flatten(), out.flatten(0, 1))


def capacity(tokens_count: int) -> None:
    """Eight layers of eight experts with a capacity, in bfloat16."""
    with on_cuda(torch.bfloat16):
        model = nn.Sequential(*(CapacityExperts(1024, 4096, 8) for _ in range(8)))
        x = torch.randn(tokens_count, 1024)
    trained(model, lambda: model(x).float().square().mean())


def soft(tokens_count: int) -> None:
    """Every token through every expert, weighted: products of batches, and einsum."""
    with on_cuda():
        router, up, down = nn.Linear(512, 16), nn.Linear(512, 16 * 1024), nn.Linear(1024, 512)
        x = torch.randn(tokens_count, 512)
    model = nn.ModuleList([router, up, down])

    def loss() -> Tensor:
        weights = router(x).softmax(-1)
        out = down(F.relu(up(x).unflatten(-1, (16, 1024))))
        return torch.einsum("te,ted->td", weights, out).square().mean()

    trained(model, loss, autocast=torch.bfloat16)


def mixtral(batch: int, length: int) -> None:
    """A small Mixtral of transformers, eight experts of which a token takes two."""
    from transformers import MixtralConfig, MixtralForCausalLM

    with on_cuda(torch.bfloat16):
        model = MixtralForCausalLM(MixtralConfig(
            vocab_size=32_000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=6,
            num_attention_heads=16, num_key_value_heads=4, num_local_experts=8, use_cache=False,
        ))  # fmt: skip
    ids = tokens(batch, length, 32_000)
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}))
