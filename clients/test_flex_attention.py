"""``torch.nn.attention.flex_attention``, compiled as everybody uses it, and uncompiled as some debug it."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

BATCH, HEADS, SEQUENCE, WIDTH = 2, 8, 1024, 64


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def heads(count):
    shape = (BATCH, count, SEQUENCE, WIDTH)
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)


def causal_mask():
    return create_block_mask(causal, B=None, H=None, Q_LEN=SEQUENCE, KV_LEN=SEQUENCE)


@pytest.mark.mem_budget(gib=0.1)
def test_compiled():
    compiled = torch.compile(flex_attention)
    out = compiled(heads(HEADS), heads(HEADS), heads(HEADS), block_mask=causal_mask())
    out.sum().backward()


@pytest.mark.mem_budget(gib=1)
def test_uncompiled():
    flex_attention(heads(HEADS), heads(HEADS), heads(HEADS), block_mask=causal_mask()).sum().backward()


@pytest.mark.mem_budget(gib=1)
def test_grouped_queries_and_a_modified_score():
    def alibi(score, b, h, q_idx, kv_idx):
        return score + (kv_idx - q_idx) * torch.exp2(-(h + 1) * 8.0 / HEADS)

    out = flex_attention(heads(HEADS), heads(2), heads(2), score_mod=alibi, enable_gqa=True)
    out.sum().backward()
