"""Operators that take functions: flex attention as eager code runs it."""

import torch

B, H, S, D = 1, 2, 256, 16
SCORES = B * H * S * S * 4  # float32, whatever the operands are
STATISTICS = B * H * S * 4  # a float32 for each query
OPERAND = B * H * S * D * 2  # bf16


def qkv():
    return [
        torch.randn(B, H, S, D, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    ]


def flex():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, B=None, H=None, Q_LEN=S, KV_LEN=S, BLOCK_SIZE=128)
    out = flex_attention(*qkv(), block_mask=mask)
    out.sum().backward()
    return list(out.shape)


def test_uncompiled_flex_attention_holds_the_scores(trace):
    """By ``sdpa_dense_backward`` (torch/_higher_order_ops/flex_attention.py, 2.13), where its peak is.

    Where the scores' gradient is rounded to bf16 it holds six float32 matrices of scores (before and after
    the modification, the softmax, its gradient, the modification's, that times the scale) and the half-size
    result; key and value repeated for their heads, and value's gradient; the logsumexp and its gradient, the
    rows' sums; the rows that are masked out; the four ranges of indices; and the three gradients that it
    returns, which autograd has not passed on yet.
    """
    run = trace(flex)

    held = 6 * SCORES + SCORES // 2 + 3 * OPERAND + 3 * STATISTICS + B * H * S + 8 * (B + H + 2 * S)
    returned = 3 * OPERAND
    assert run.value == [B, H, S, D]
    assert run.temporaries == held + returned
    assert run.report.not_modelled == ()
