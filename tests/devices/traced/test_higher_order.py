"""Operators that take functions: flex attention as eager code runs it, and the refusal of others."""

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
    rows' sums; the rows that are masked out; the four ranges of indices. Without a workspace that is taken
    for products alone, as from 2.15 on: it is larger than all of that.
    """
    run = trace(flex, workspaces_of=(2, 13))

    held = 6 * SCORES + SCORES // 2 + 3 * OPERAND + 3 * STATISTICS + B * H * S + 8 * (B + H + 2 * S)
    assert run.value == [B, H, S, D]
    assert run.temporaries == held
    assert run.gradients == 3 * OPERAND
    assert run.report.not_modelled == ()


def test_examples_that_a_modified_score_is_traced_with_take_nothing(trace):
    """``create_fw_bw_graph`` makes them in a fake mode of its own, on a card too (2.11 to 2.15)."""
    run = trace(flex, workspaces_of=(2, 13))

    assert "aten::empty_strided" not in {holder.operator for holder in run.report.holders}


def without_gradients():
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(B, H, S, D, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        return list(flex_attention(q, q, q).shape)


def test_without_gradients_it_runs_too(trace):
    run = trace(without_gradients)

    assert run.value == [B, H, S, D]
    assert run.allocated > 2 * SCORES


def integers():
    from torch._higher_order_ops.out_dtype import out_dtype

    first = torch.ones(64, 256, device="cuda", dtype=torch.int8)
    second = torch.ones(256, 128, device="cuda", dtype=torch.int8)
    result = out_dtype(torch.ops.aten.mm.default, torch.int32, first, second)
    return [list(result.shape), str(result.dtype)]


def test_a_product_of_integers_with_larger_sums_is_one_product(trace):
    """``out_dtype_dense`` (torch/_higher_order_ops/out_dtype.py, 2.13): ``_int_mm``, and no copies."""
    run = trace(integers, workspaces_of=(2, 13))

    assert run.value == [[64, 128], "torch.int32"]
    assert run.allocated == 64 * 256 + 256 * 128 + 64 * 128 * 4


def other():
    try:
        torch.ops.higher_order.map_impl(lambda x: (x,), [torch.ones(2, device="cuda")], [])
    except Exception as error:
        return [type(error).__name__, str(error)]


def test_others_are_refused_by_name(trace):
    kind, text = trace(other).value

    assert kind == "NotAvailable"
    assert text.startswith("torch.ops.higher_order.map_impl is not part of the virtual CUDA device")
