"""The workspace of cuDNN's attention: figures that cuDNN gave for graphs as PyTorch builds them.

The totals were read off plans of cuDNN 9.26.1, made by cudnn-frontend 1.23 (heads of 256 on Blackwell: 1.28)
for described devices; 9.19.0, 9.20.0 and 9.24.1 gave the same unless a test says otherwise.
"""

from dataclasses import replace

import pytest
import torch
from pytest_membudget.devices.fake import attention_calls
from pytest_membudget.devices.fake.attention_choice import Platform
from pytest_membudget.devices.fake.attention_temporaries import attention_temporaries
from pytest_membudget.devices.fake.kernel_bounds import BOUNDS

from pytest_membudget.hardware.gpus import find_gpu

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_cudnn_attention.default
BACKWARD = aten._scaled_dot_product_cudnn_attention_backward.default
A100, H100, B200 = (find_gpu(name) for name in ("A100-80GB", "H100-80GB", "B200"))
RTX_5090 = replace(H100, capability=(12, 0))


@pytest.fixture(autouse=True)
def cudnn(monkeypatch):
    """Sets the version of cuDNN that PyTorch runs with."""

    def set_version(version):
        monkeypatch.setattr(
            attention_calls, "platform_of", lambda capability: Platform(capability, (2, 15), version)
        )

    set_version(92601)
    return set_version


def operands(batch, heads, key_heads, queries, keys, width, value_width=None):
    def one(count, rows, columns):
        return torch.empty(batch, rows, count, columns, dtype=torch.bfloat16, device="meta").transpose(1, 2)

    return (
        one(heads, queries, width),
        one(key_heads, keys, width),
        one(key_heads, keys, value_width or width),
        one(heads, queries, value_width or width),
    )


def forward_call(*shape, mask=None, trains=True, dropout=0.0):
    return (*operands(*shape)[:3], mask, trains, dropout)


def forward(gpu, *shape, **options):
    return attention_temporaries(FORWARD, forward_call(*shape, **options), gpu)


def left_out(gpu, *shape, **options):
    return BOUNDS[FORWARD].bound(forward_call(*shape, **options), {}, None, gpu)


def backward(gpu, *shape, mask=None, dropout=0.0):
    query, key, value, out = operands(*shape)
    state = (None, None, None, mask, None, None, shape[3], shape[4], dropout, False)
    return attention_temporaries(BACKWARD, (out, query, key, value, out, *state), gpu)


MASK = torch.empty(1, 1, 1, 1, device="meta")


# --- forward


@pytest.mark.parametrize("shape", [(2, 8, 8, 512, 512, 64), (4, 16, 4, 1000, 1000, 128)])
def test_hoppers_forward_takes_a_schedulers_256_bytes(shape):
    assert forward(H100, *shape) == [256]
    assert forward(H100, *shape, trains=False, dropout=0.125) == [256]
    assert left_out(H100, *shape) == 0


@pytest.mark.parametrize("gpu", [A100, B200, RTX_5090], ids=["A100", "B200", "RTX-5090"])
def test_other_forwards_take_nothing(gpu):
    assert forward(gpu, 4, 16, 4, 1000, 1000, 128) == []
    assert left_out(gpu, 4, 16, 4, 1000, 1000, 128) == 0


@pytest.mark.parametrize(
    ("shape", "planned"),
    [((1, 4, 1, 1000, 333, 64), 196_736), ((2, 3, 3, 64, 2, 8), 12_416), ((16, 8, 2, 2, 333, 64), 786_560)],
)
def test_dropout_on_blackwell_has_a_bit_for_each_score(shape, planned):
    """The first: 4 heads of 1,024 x 384 bits, and 128 bytes."""
    assert forward(B200, *shape, dropout=0.125) == [planned]
    assert left_out(B200, *shape, dropout=0.125) == 0


def test_dropout_without_training_on_blackwell_is_bounded():
    """cuDNN 9.26.1 takes 4,224 bytes with frontend 1.23, and none with 1.28."""
    assert forward(B200, 1, 2, 2, 2, 128, 80, trains=False, dropout=0.125) == []
    assert left_out(B200, 1, 2, 2, 2, 128, 80, trains=False, dropout=0.125) == 4224


@pytest.mark.parametrize(
    ("gpu", "shape", "planned"),
    [
        (H100, (5, 2, 2, 1, 4096, 96), 62_848),
        (H100, (5, 3, 3, 1, 1000, 128), 31_360),
        (H100, (1, 32, 8, 1, 32768, 256), 1_056_896),
        (B200, (1, 2, 1, 1, 10000, 64), 22_400),
        (B200, (16, 32, 8, 1, 1025, 80), 839_808),
        (B200, (1, 4, 4, 512, 4096, 128), 17_039_488),
        (B200, (1, 1, 1, 8192, 8192, 128), 17_039_488),
        (B200, (2, 2, 2, 512, 32768, 72), 9_699_456),
    ],
)
def test_splits_over_the_keys_lie_within_the_bound(gpu, shape, planned):
    assert forward(gpu, *shape) == []
    assert planned <= left_out(gpu, *shape)


def test_the_bound_of_one_query_is_a_split_for_each_128_keys():
    """32 splits of 10 rows: 96 numbers and two more in fp32, and 128 bytes."""
    assert left_out(H100, 5, 2, 2, 1, 4096, 96) == 4 * 32 * 10 * (96 + 2) + 128


def test_a_card_full_of_tiles_is_not_split():
    """8 heads of 4,096 queries are 128 tiles of 256, on 148 multiprocessors."""
    assert left_out(B200, 1, 8, 8, 4096, 4096, 128) == 0
    assert left_out(B200, 1, 4, 4, 4096, 4096, 128) > 0


# --- backward


@pytest.mark.parametrize(
    ("shape", "planned"),
    [
        ((2, 8, 8, 512, 512, 64), 2_130_176),
        ((2, 8, 2, 512, 512, 64), 4_227_328),
        ((2, 8, 8, 333, 777, 128), 2_749_504),
        ((4, 16, 4, 1000, 1000, 128), 65_792_256),
        ((2, 8, 2, 333, 777, 256), 18_207_808),
    ],
)
def test_hoppers_backward(shape, planned):
    """The first: 8,192 rows of 64 + 1 numbers in fp32, and 256 bytes; the second also dK and dV by head."""
    assert backward(H100, *shape) == [planned]
    assert backward(H100, *shape, dropout=0.125) == [planned]


@pytest.mark.parametrize(
    ("shape", "planned"),
    [
        ((2, 8, 8, 512, 512, 64), 2_129_920),
        ((2, 8, 2, 512, 512, 64), 4_227_200),
        ((2, 8, 8, 333, 777, 128), 2_749_248),
        ((4, 16, 4, 1000, 1000, 128), 65_792_128),
    ],
)
def test_blackwells_backward(shape, planned):
    assert backward(B200, *shape) == [planned]


@pytest.mark.parametrize(
    ("shape", "planned"),
    [
        ((2, 8, 8, 512, 512, 64), 4_227_200),
        ((2, 8, 2, 512, 512, 64), 6_324_352),
        ((2, 8, 8, 333, 777, 128), 5_501_888),
        ((4, 16, 4, 1000, 1000, 128), 98_560_128),
    ],
)
@pytest.mark.parametrize("gpu", [A100, RTX_5090], ids=["A100", "RTX-5090"])
def test_the_backward_for_all_cards_sums_the_querys_gradient_once_more(gpu, shape, planned):
    """The third: 333 queries count as 336 in the engine's own sums."""
    assert backward(gpu, *shape) == [planned]


def test_few_keys_run_on_blackwell_as_on_ampere():
    assert backward(B200, 1, 1, 1, 128, 128, 128) == [131_712]
    assert backward(B200, 8, 8, 8, 128, 64, 64) == [4_227_200]
    assert backward(B200, 1, 4, 1, 129, 128, 80, 128) == [554_384]


def test_few_masked_queries_run_on_blackwell_as_on_ampere():
    assert backward(B200, 16, 3, 3, 7, 4096, 128, mask=MASK) == [370_112]
    assert backward(B200, 16, 3, 3, 7, 4096, 128) == [4 * 16 * 3 * 7 * 129]


def test_before_9_26_few_queries_without_a_mask_did_too(cudnn):
    cudnn(91900)

    assert backward(B200, 5, 12, 3, 7, 333, 128) == [10_692_368]


def test_dropout_adds_its_bits_to_blackwells_backward():
    """2 x 8 heads of 512 x 512 bits are 524,288 bytes."""
    assert backward(B200, 2, 8, 8, 512, 512, 64, dropout=0.125) == [2_654_336]
    assert backward(B200, 2, 8, 2, 333, 777, 128, dropout=0.125) == [9_802_688]


@pytest.mark.parametrize(
    ("shape", "planned"),
    [
        ((2, 8, 8, 512, 512, 256), 32_768),
        ((2, 8, 2, 333, 777, 256), 38_212_544),
        ((1, 3, 1, 7, 33, 256), 304_340),
    ],
)
def test_heads_of_256_on_blackwell_have_no_sums_of_the_querys_gradient(shape, planned):
    assert backward(B200, *shape) == [planned]


def test_a_gradient_that_is_strided_in_its_heads_is_copied():
    query, key, value, out = operands(2, 8, 8, 512, 512, 64)
    gradient = torch.empty(64, 512, 8, 2, device="meta", dtype=torch.bfloat16).permute(3, 2, 1, 0)
    call = (gradient, query, key, value, out, None, None, None, None, None, None, 512, 512, 0.0, False)

    assert attention_temporaries(BACKWARD, call, H100) == [2_130_176, 2 * 2 * 8 * 512 * 64]


def test_empty_operands_take_nothing():
    assert forward(H100, 2, 8, 8, 0, 512, 64) == []
    assert backward(H100, 2, 8, 8, 0, 512, 64) == []
    assert left_out(H100, 2, 8, 8, 1, 0, 64) == 0


# --- in a run


def training_step(queries):
    query, key, value = (
        torch.randn(1, rows, 32, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True).transpose(1, 2)
        for rows in (queries, 2048, 2048)
    )
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    output.backward(torch.empty_like(output))


def test_a_traced_step_has_the_workspace_and_nothing_to_list(trace):
    traced = trace(training_step, 2048, gpu="H100-80GB")

    assert traced.workspaces == 4 * 32 * 2048 * 129 + 256
    assert traced.report.not_modelled == ()


def test_a_traced_step_of_one_query_is_listed(trace):
    (listed,) = trace(training_step, 1, gpu="H100-80GB").report.not_modelled

    assert listed.startswith("aten::_scaled_dot_product_cudnn_attention, once")
