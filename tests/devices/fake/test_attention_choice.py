"""Which kernel CUDA chooses for an attention, by the rules of PyTorch's sdp_utils.cpp."""

from __future__ import annotations

import pytest

from pytest_membudget.devices.fake.attention_choice import (
    CUDNN_FIRST,
    CUDNN_OF_TORCH,
    DEFAULT_PRIORITY,
    AttentionCall,
    AttentionSettings,
    Backend,
    NoKernelError,
    Operand,
    Platform,
    choose_backend,
    priority_order,
    why_not,
)

V100, A100, RTX_4090, H100, B200 = (7, 0), (8, 0), (8, 9), (9, 0), (10, 0)


def operand(heads=8, length=512, width=64, dtype="bfloat16", batch=2, offset=0, requires_grad=True):
    shape = (batch, heads, length, width)
    strides = (heads * length * width, length * width, width, 1)
    return Operand(shape, strides, dtype, offset, requires_grad)


def mask_of(*shape, dtype="bool", requires_grad=False):
    strides = tuple(1 if i == len(shape) - 1 else shape[-1] for i in range(len(shape)))
    return Operand(shape, strides, dtype, 0, requires_grad)


def call(query=None, key=None, value=None, **arguments):
    query = query or operand()
    key = key or query
    return AttentionCall(query, key, value or key, **arguments)


def platform(capability=A100, torch_version=(2, 13), cudnn_version=None):
    return Platform(capability, torch_version, cudnn_version or CUDNN_OF_TORCH[torch_version])


def chosen(attention, where=None, *, enabled=frozenset(Backend), deterministic=False):
    where = where or platform()
    settings = AttentionSettings(enabled, priority_order([1, 2, 0, 3, 4], where), deterministic)
    return choose_backend(attention, where, settings)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_without_a_mask_runs_flash(dtype):
    assert chosen(call(operand(dtype=dtype))) is Backend.FLASH


def test_single_precision_runs_efficient():
    assert chosen(call(operand(dtype="float32"))) is Backend.EFFICIENT


def test_double_precision_has_no_fused_kernel():
    assert chosen(call(operand(dtype="float64"))) is Backend.MATH


def test_a_mask_rules_flash_out():
    assert chosen(call(mask=mask_of(512, 512))) is Backend.EFFICIENT


def test_a_strided_mask_rules_all_fused_kernels_out():
    strided = Operand((512, 512), (1024, 2), "bool")
    assert chosen(call(mask=strided)) is Backend.MATH


def test_before_ampere_half_precision_runs_efficient_and_bfloat16_by_formula():
    assert chosen(call(operand(dtype="float16")), platform(V100)) is Backend.EFFICIENT
    assert chosen(call(operand(dtype="bfloat16")), platform(V100)) is Backend.MATH


def test_flash_takes_heads_up_to_256_wide():
    assert chosen(call(operand(width=256))) is Backend.FLASH
    assert chosen(call(operand(width=264))) is Backend.EFFICIENT


def test_flash_takes_widths_that_are_padded_first_and_efficient_does_not():
    assert chosen(call(operand(width=61))) is Backend.FLASH
    assert chosen(call(operand(width=61, dtype="float32"))) is Backend.MATH


def test_efficient_needs_16_bytes_of_a_head_at_once():
    assert chosen(call(operand(width=60, dtype="float32"))) is Backend.EFFICIENT
    assert chosen(call(operand(width=60), mask=mask_of(512, 512))) is Backend.MATH


def test_values_of_another_width_rule_flash_out():
    assert chosen(call(value=operand(width=32))) is Backend.EFFICIENT


def test_causal_flash_needs_as_many_keys_as_queries():
    cross = call(key=operand(length=256), is_causal=True)
    assert chosen(cross) is Backend.EFFICIENT


@pytest.mark.parametrize(
    ("width", "dropout_p", "backend"),
    [
        (192, 0.1, Backend.FLASH),
        (224, 0.0, Backend.EFFICIENT),
        (256, 0.0, Backend.FLASH),
        (256, 0.1, Backend.EFFICIENT),
    ],
)
def test_consumer_cards_have_no_flash_backward_for_some_wide_heads(width, dropout_p, backend):
    assert chosen(call(operand(width=width), dropout_p=dropout_p), platform(RTX_4090)) is backend


def test_wide_heads_run_flash_on_consumer_cards_in_inference():
    wide = call(operand(width=224), grad_enabled=False)
    assert chosen(wide, platform(RTX_4090)) is Backend.FLASH
    assert chosen(call(operand(width=224)), platform(A100)) is Backend.FLASH


def test_flash_shares_heads_of_key_and_value():
    grouped = call(key=operand(heads=2), enable_gqa=True)
    assert chosen(grouped) is Backend.FLASH


@pytest.mark.parametrize(
    ("torch_version", "backend"), [((2, 13), Backend.MATH), ((2, 14), Backend.EFFICIENT)]
)
def test_efficient_shares_heads_since_2_14(torch_version, backend):
    grouped = call(operand(dtype="float32"), operand(heads=2, dtype="float32"), enable_gqa=True)
    assert chosen(grouped, platform(torch_version=torch_version)) is backend


@pytest.mark.parametrize(("torch_version", "backend"), [((2, 13), Backend.MATH), ((2, 14), Backend.FLASH)])
def test_one_head_of_key_serves_all_without_being_asked_since_2_14(torch_version, backend):
    assert chosen(call(key=operand(heads=1)), platform(torch_version=torch_version)) is backend


def test_fewer_heads_of_key_without_grouping_have_no_fused_kernel():
    assert chosen(call(key=operand(heads=2)), platform(torch_version=(2, 15))) is Backend.MATH


def test_operands_without_a_batch_dimension_have_no_fused_kernel():
    unbatched = Operand((8, 512, 64), (512 * 64, 64, 1), "bfloat16")
    assert chosen(call(unbatched)) is Backend.MATH


def test_an_empty_sequence_has_no_fused_kernel():
    assert chosen(call(key=operand(length=0))) is Backend.MATH


@pytest.mark.parametrize(
    ("torch_version", "backend"), [((2, 12), Backend.EFFICIENT), ((2, 13), Backend.MATH)]
)
def test_efficient_needs_aligned_storage_offsets_since_2_13(torch_version, backend):
    shifted = call(operand(dtype="float32", offset=2))
    assert chosen(shifted, platform(torch_version=torch_version)) is backend


@pytest.mark.parametrize("capability", [H100, B200, (10, 3)])
def test_data_centre_cards_run_cudnn_first(capability):
    assert chosen(call(), platform(capability)) is Backend.CUDNN


@pytest.mark.parametrize("capability", [A100, RTX_4090, (12, 0)])
def test_other_cards_run_flash_before_cudnn(capability):
    assert chosen(call(), platform(capability)) is Backend.FLASH


def test_cudnn_up_to_9_15_0_does_not_come_first():
    assert chosen(call(), platform(H100, cudnn_version=91500)) is Backend.FLASH
    assert chosen(call(), platform(H100, cudnn_version=91501)) is Backend.CUDNN


def test_cudnn_can_be_deprioritized():
    order = priority_order([1, 2, 0, 3, 4], platform(H100), deprioritized=True)
    assert order == DEFAULT_PRIORITY


def test_an_order_that_was_set_is_kept():
    order = priority_order([2, 1, 0, 3, 4], platform(H100))
    assert order == (Backend.EFFICIENT, Backend.FLASH, Backend.MATH, Backend.CUDNN)
    assert priority_order([3, 1, 2, 0, 4], platform(A100)) == CUDNN_FIRST


def test_cudnn_takes_a_mask():
    assert chosen(call(mask=mask_of(512, 512)), platform(H100)) is Backend.CUDNN
    assert chosen(call(mask=mask_of(2, 1, 1, 512)), platform(H100)) is Backend.CUDNN


def test_cudnn_takes_no_three_dimensional_mask():
    assert chosen(call(mask=mask_of(8, 512, 512)), platform(H100)) is Backend.EFFICIENT


def test_cudnn_has_no_gradient_for_a_mask():
    trained = mask_of(512, 512, dtype="bfloat16", requires_grad=True)
    assert chosen(call(mask=trained), platform(H100)) is Backend.EFFICIENT


@pytest.mark.parametrize(
    ("torch_version", "dropout_p", "backend"),
    [((2, 11), 0.1, Backend.CUDNN), ((2, 12), 0.1, Backend.FLASH), ((2, 12), 0.125, Backend.CUDNN)],
)
def test_since_2_12_cudnn_takes_dropout_in_sixteenths_only(torch_version, dropout_p, backend):
    assert chosen(call(dropout_p=dropout_p), platform(H100, torch_version)) is backend


def test_deterministic_mode_keeps_cudnn_out():
    assert chosen(call(), platform(H100), deterministic=True) is Backend.FLASH


def test_cudnn_takes_no_key_of_length_one():
    decode = call(key=operand(length=1))
    assert chosen(decode, platform(H100)) is Backend.FLASH


@pytest.mark.parametrize(
    ("capability", "torch_version", "width", "backend"),
    [
        (H100, (2, 13), 256, Backend.CUDNN),
        (B200, (2, 13), 256, Backend.FLASH),
        (B200, (2, 14), 256, Backend.CUDNN),
        (H100, (2, 14), 192, Backend.FLASH),  # no backward: (192, 128) and (256, 256) only
    ],
)
def test_cudnn_takes_wide_heads_where_it_has_a_backward(capability, torch_version, width, backend):
    assert chosen(call(operand(width=width)), platform(capability, torch_version)) is backend


def test_cudnn_takes_heads_of_192_with_values_of_128():
    latent = call(operand(width=192), operand(width=192), operand(width=128))
    assert chosen(latent, platform(B200)) is Backend.CUDNN


@pytest.mark.parametrize(("torch_version", "backend"), [((2, 13), Backend.CUDNN), ((2, 14), Backend.FLASH)])
def test_decoding_on_blackwell_is_kept_from_cudnn_9_24_0(torch_version, backend):
    decode = call(operand(length=1), operand(length=512), grad_enabled=False)
    assert chosen(decode, platform(B200, torch_version, 92400)) is backend


@pytest.mark.parametrize(
    ("cudnn_version", "is_causal", "length", "backend"),
    [
        (92500, False, 192, Backend.FLASH),
        (92500, True, 192, Backend.CUDNN),
        (92500, False, 256, Backend.CUDNN),
        (92600, False, 192, Backend.CUDNN),
    ],
)
def test_since_2_15_hopper_passes_over_kernels_whose_gradients_may_be_nan(
    cudnn_version, is_causal, length, backend
):
    where = platform(H100, (2, 15), cudnn_version)
    assert chosen(call(operand(length=length), is_causal=is_causal), where) is backend


def test_a_grid_has_65535_batches_at_most():
    many = call(operand(batch=65536, length=16))
    assert chosen(many, platform(H100, (2, 13))) is Backend.FLASH
    assert chosen(many, platform(H100, (2, 15))) is Backend.EFFICIENT


def test_a_kernel_that_is_switched_off_is_passed_over():
    enabled = frozenset(Backend) - {Backend.FLASH}
    assert chosen(call(), enabled=enabled) is Backend.EFFICIENT


def test_where_no_kernel_may_run_each_says_why():
    with pytest.raises(RuntimeError, match="No available kernel") as raised:
        chosen(call(mask=mask_of(512, 512)), enabled=frozenset({Backend.FLASH}))
    assert "FLASH: it takes no attn_mask" in str(raised.value)
    assert "MATH: it has been switched off" in str(raised.value)
    assert raised.type is NoKernelError


def test_a_kernel_that_can_run_has_no_reasons_against_it():
    assert why_not(Backend.FLASH, call(), platform(), AttentionSettings()) == ()


def test_every_reason_against_a_kernel_is_given():
    attention = call(operand(dtype="float32", width=512))
    reasons = why_not(Backend.FLASH, attention, platform(V100), AttentionSettings())
    assert [r.split()[0] for r in reasons] == ["it", "query,", "query,"]
    assert "compute capabilities" in reasons[0]
    assert "dtype" in reasons[1]
    assert "head dimension" in reasons[2]
