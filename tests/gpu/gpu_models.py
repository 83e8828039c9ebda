"""The models of the GPU suite: Llama 3 shapes of transformers on the device, in bfloat16."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 128_256
#: Llama 3.2 1B and 3B, Llama 3.1 8B: 1,235,814,400, 3,212,749,824 and 8,030,261,248 parameters.
_SHAPES = {
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
           "num_attention_heads": 32, "tie_word_embeddings": True},
    "3b": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
           "num_attention_heads": 24, "tie_word_embeddings": True},
    "8b": {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
           "num_attention_heads": 32},
}  # fmt: skip


def llama(size):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, num_key_value_heads=8, rope_theta=500_000.0, **_SHAPES[size]
    )
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(torch.float32)


def frozen(model):
    return model.eval().requires_grad_(False)


def batch(size, tokens):
    ids = torch.randint(0, VOCABULARY, (size, tokens), device="cuda")
    return {"input_ids": ids, "labels": ids, "use_cache": False}


class LowRank(nn.Module):
    """A frozen layer, and a product of rank 16 beside it."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Parameter(torch.empty(16, base.in_features, **like))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.up = nn.Parameter(torch.zeros(base.out_features, 16, **like))

    def forward(self, x):
        return self.base(x) + 2.0 * F.linear(F.linear(x, self.down), self.up)


def with_low_rank(model):
    """Adapters on queries and values; all else is frozen."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, LowRank(getattr(layer.self_attn, name)))
    return model


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
