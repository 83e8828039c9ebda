"""The workspace of cuDNN's attention: figures that cuDNN gave for graphs as PyTorch builds them.

The totals were read off plans of cuDNN 9.26.1, made by cudnn-frontend 1.23 (heads of 256 on Blackwell: 1.28)
for described devices; 9.19.0, 9.20.0 and 9.24.1 gave the same unless a test says otherwise.
"""

from dataclasses import replace

import pytest

from pytest_membudget.formulas.kernels import cudnn_attention
from pytest_membudget.formulas.kernels.attention_call import AttentionCall
from pytest_membudget.hardware.gpus import find_gpu

A100, H100, B200 = (find_gpu(name) for name in ("A100-80GB", "H100-80GB", "B200"))
RTX_5090 = replace(H100, capability=(12, 0))


def call(batch, heads, key_heads, queries, keys, width, value_width=None, **options):
    return AttentionCall(
        batch, heads, key_heads, key_heads, queries, keys, width, value_width or width, 2, **options
    )


def backward(gpu, *shape, cudnn_version=92601, **options):
    return cudnn_attention.backward_bytes(call(*shape, **options), gpu, cudnn_version)


@pytest.mark.parametrize(
    ("gpu", "shape", "dropout", "planned"),
    [
        # Hopper's tile scheduler, with dropout too
        (H100, (4, 16, 4, 1000, 1000, 128), False, 256),
        (H100, (2, 8, 8, 512, 512, 64), True, 256),
        (A100, (4, 16, 4, 1000, 1000, 128), False, 0),
        (B200, (4, 16, 4, 1000, 1000, 128), False, 0),
        (RTX_5090, (4, 16, 4, 1000, 1000, 128), False, 0),
        # Blackwell's dropout has a bit for each score: 4 heads of 1,024 x 384 bits, and 128 bytes
        (B200, (1, 4, 1, 1000, 333, 64), True, 196_736),
        (B200, (2, 3, 3, 64, 2, 8), True, 12_416),
        (B200, (16, 8, 2, 2, 333, 64), True, 786_560),
        (H100, (2, 8, 8, 0, 512, 64), False, 0),
    ],
)
def test_forward(gpu, shape, dropout, planned):
    assert cudnn_attention.forward_bytes(call(*shape, has_dropout=dropout), gpu) == planned


@pytest.mark.parametrize(
    ("gpu", "shape", "planned"),
    [
        # 8,192 rows of 64 + 1 numbers in fp32, and 256 bytes; with shared heads dK and dV by head too
        (H100, (2, 8, 8, 512, 512, 64), 2_130_176),
        (H100, (2, 8, 2, 512, 512, 64), 4_227_328),
        (H100, (2, 8, 8, 333, 777, 128), 2_749_504),
        (H100, (4, 16, 4, 1000, 1000, 128), 65_792_256),
        (H100, (2, 8, 2, 333, 777, 256), 18_207_808),
        (H100, (2, 8, 8, 0, 512, 64), 0),
        (B200, (2, 8, 8, 512, 512, 64), 2_129_920),
        (B200, (2, 8, 2, 512, 512, 64), 4_227_200),
        (B200, (2, 8, 8, 333, 777, 128), 2_749_248),
        (B200, (4, 16, 4, 1000, 1000, 128), 65_792_128),
        # few keys run on Blackwell as on Ampere
        (B200, (1, 1, 1, 128, 128, 128), 131_712),
        (B200, (8, 8, 8, 128, 64, 64), 4_227_200),
        (B200, (1, 4, 1, 129, 128, 80, 128), 554_384),
        # heads of 256 on Blackwell have no sums of the query's gradient
        (B200, (2, 8, 8, 512, 512, 256), 32_768),
        (B200, (2, 8, 2, 333, 777, 256), 38_212_544),
        (B200, (1, 3, 1, 7, 33, 256), 304_340),
        # the backward for all cards sums the query's gradient once more; 333 queries count as 336 there
        (A100, (2, 8, 8, 512, 512, 64), 4_227_200),
        (A100, (2, 8, 2, 512, 512, 64), 6_324_352),
        (A100, (2, 8, 8, 333, 777, 128), 5_501_888),
        (RTX_5090, (2, 8, 8, 333, 777, 128), 5_501_888),
        (RTX_5090, (4, 16, 4, 1000, 1000, 128), 98_560_128),
    ],
)
def test_backward(gpu, shape, planned):
    assert backward(gpu, *shape) == planned


def test_few_queries_run_on_blackwell_as_on_ampere_if_they_are_masked_or_before_9_26():
    masked = backward(B200, 16, 3, 3, 7, 4096, 128, has_mask=True)

    assert masked == 370_112
    assert backward(B200, 16, 3, 3, 7, 4096, 128) == 4 * 16 * 3 * 7 * 129
    assert backward(B200, 5, 12, 3, 7, 333, 128, cudnn_version=91900) == 10_692_368


def test_dropout_adds_its_bits_to_blackwells_backward_alone():
    """2 x 8 heads of 512 x 512 bits are 524,288 bytes."""
    assert backward(B200, 2, 8, 8, 512, 512, 64, has_dropout=True) == 2_129_920 + 524_288 + 128
    assert backward(B200, 2, 8, 2, 333, 777, 128, has_dropout=True) == 9_802_688
    assert backward(H100, 2, 8, 8, 512, 512, 64, has_dropout=True) == 2_130_176
