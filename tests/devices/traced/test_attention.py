"""The operators that attention becomes on the virtual device: forward, on fake tensors, nothing recorded.

Backward needs the device itself and is tested with it.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from pytest_membudget.devices.fake.attention import attention, platform_of, register_attention
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_membudget.errors import NotAvailable

A100, H100 = (8, 0), (9, 0)
KERNELS = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_flash_attention_for_cpu": "cpu",
    "_safe_softmax": "math",
}
TORCH = platform_of(A100).torch_version
since_2_12 = pytest.mark.skipif(TORCH < (2, 12), reason="a rule of torch 2.12")
since_2_14 = pytest.mark.skipif(TORCH < (2, 14), reason="a rule of torch 2.14")


class Recorder(TorchDispatchMode):
    """Every operator that reaches the fake tensors, with its tensors' shapes and dtypes."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is not torch.ops.prim.device.default:
            self.calls.append((func._schema.name.removeprefix("aten::"), args, kwargs or {}, result))
        return result

    def kernels(self):
        return [KERNELS[name] for name, *_ in self.calls if name in KERNELS]

    def only(self, operator):
        [found] = [(args, kwargs, result) for name, args, kwargs, result in self.calls if name == operator]
        return found

    def made(self, operator):
        return [tuple(result.shape) for name, _, _, result in self.calls if name == operator]


@pytest.fixture
def recorder():
    with FakeTensorMode(), torch.no_grad(), Recorder() as recorder:
        yield recorder


@pytest.fixture
def registered():
    library = register_attention(lambda: A100)
    yield
    library._destroy()


def tensors(*, heads=4, key_heads=None, length=128, width=64, dtype=torch.bfloat16, device="cuda"):
    def one(heads):
        return torch.empty(2, heads, length, width, dtype=dtype, device=device)

    return one(heads), one(key_heads or heads), one(key_heads or heads)


def a_mask(*shape, dtype=torch.bool):
    return torch.ones(*shape, dtype=dtype, device="cuda")


def test_the_kernel_of_choice_is_called_and_gives_an_output_like_the_query(recorder):
    query, key, value = tensors()
    output = attention(query, key, value, capability=A100)
    assert recorder.kernels() == ["flash"]
    assert (output.shape, output.dtype, output.device) == (query.shape, query.dtype, query.device)


@pytest.mark.parametrize(("dtype", "kernel"), [(torch.float32, "efficient"), (torch.float64, "math")])
def test_dtypes_have_the_kernels_that_cuda_has_for_them(recorder, dtype, kernel):
    attention(*tensors(dtype=dtype), capability=A100)
    assert recorder.kernels() == [kernel]


def test_a_switched_off_kernel_is_not_called(recorder):
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        attention(*tensors(), capability=A100)
    assert recorder.kernels() == ["efficient"]


def test_an_order_that_the_user_sets_is_followed(recorder):
    order = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
    with sdpa_kernel(order, set_priority=True):
        attention(*tensors(), capability=A100)
    assert recorder.kernels() == ["math"]


def test_a_card_with_cudnn_attention_runs_it_unless_it_is_disabled(recorder, monkeypatch):
    attention(*tensors(), capability=H100)
    monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    attention(*tensors(), capability=H100)
    assert recorder.kernels() == ["cudnn", "flash"]


def test_flash_pads_heads_to_a_multiple_of_eight_and_keeps_their_scale(recorder):
    output = attention(*tensors(width=60), capability=A100)
    assert recorder.made("constant_pad_nd") == [(2, 4, 128, 64)] * 3
    _, kwargs, _ = recorder.only("_scaled_dot_product_flash_attention")
    assert kwargs["scale"] == pytest.approx(60**-0.5)
    assert output.shape[-1] == 60


def test_flash_shares_heads_without_repeating_them(recorder):
    attention(*tensors(key_heads=2), enable_gqa=True, capability=A100)
    args, _, _ = recorder.only("_scaled_dot_product_flash_attention")
    assert args[1].shape == (2, 2, 128, 64)


def test_a_boolean_mask_becomes_numbers_of_its_own_shape(recorder):
    mask = a_mask(128, 128)
    attention(*tensors(), mask, capability=A100)
    assert recorder.made("where") == [(128, 128)]
    assert recorder.made("scalar_tensor") == [(), ()]
    args, _, _ = recorder.only("_scaled_dot_product_efficient_attention")
    assert (tuple(args[3].shape), args[3].stride(), args[3].dtype) == (
        (2, 4, 128, 128),
        (0, 0, 128, 1),
        torch.bfloat16,
    )


def test_a_mask_of_numbers_is_used_as_it_is(recorder):
    attention(*tensors(), a_mask(128, 128, dtype=torch.float32), capability=A100)
    assert recorder.made("where") == []
    assert recorder.made("constant_pad_nd") == []


def test_a_mask_with_rows_that_do_not_start_at_multiples_of_eight_is_copied(recorder):
    attention(*tensors(length=100), a_mask(2, 1, 100, 100, dtype=torch.bfloat16), capability=A100)
    assert recorder.made("constant_pad_nd") == [(2, 1, 100, 104)]


def test_rows_of_a_multiple_of_eight_that_lie_badly_get_eight_more(recorder):
    wide = a_mask(128, 130, dtype=torch.bfloat16)
    attention(*tensors(), wide.narrow(1, 0, 128), capability=A100)
    assert recorder.made("constant_pad_nd") == [(128, 136)]


def test_cudnn_takes_the_mask_unexpanded(recorder):
    attention(*tensors(), a_mask(2, 1, 128, 128), capability=H100)
    args, _, _ = recorder.only("_scaled_dot_product_cudnn_attention")
    assert args[3].shape == (2, 1, 128, 128)


def test_no_logsumexp_is_kept_where_no_gradient_is_recorded(recorder):
    query, key, value = (tensor.requires_grad_() for tensor in tensors(dtype=torch.float32))
    attention(query, key, value, capability=A100)
    args, _, result = recorder.only("_scaled_dot_product_efficient_attention")
    assert args[4] is False
    assert result[1].shape == (2, 4, 0)


def test_by_formula_half_precision_is_computed_in_single(recorder):
    with sdpa_kernel(SDPBackend.MATH):
        output = attention(*tensors(), capability=A100)
    args, _, _ = recorder.only("_safe_softmax")
    assert args[0].dtype == torch.float32
    assert output.dtype == torch.bfloat16


def test_by_formula_half_precision_stays_where_that_is_allowed(recorder):
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            attention(*tensors(), capability=A100)
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    args, _, _ = recorder.only("_safe_softmax")
    assert args[0].dtype == torch.bfloat16


def test_by_formula_the_mask_is_added_in_place_as_on_a_real_device(recorder):
    with sdpa_kernel(SDPBackend.MATH):
        attention(*tensors(), is_causal=True, capability=A100)
    assert recorder.made("add_") == [(2, 4, 128, 128)]
    assert recorder.made("tril") == [(128, 128)]


def test_by_formula_heads_are_repeated(recorder):
    with sdpa_kernel(SDPBackend.MATH):
        output = attention(*tensors(key_heads=2), enable_gqa=True, capability=A100)
    assert recorder.made("clone") == [(2, 2, 2, 128, 64)] * 2
    assert output.shape == (2, 4, 128, 64)


def test_by_formula_dropout_is_the_fused_kernel(recorder):
    with sdpa_kernel(SDPBackend.MATH):
        attention(*tensors(), dropout_p=0.1, capability=A100)
    assert "native_dropout" in [name for name, *_ in recorder.calls]


@since_2_14
def test_operands_without_a_batch_dimension_run_a_fused_kernel(recorder):
    query, key, value = (torch.empty(4, 128, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    output = attention(query, key, value, capability=A100)
    assert recorder.kernels() == ["flash"]
    assert output.shape == query.shape


@since_2_12
def test_an_empty_operand_gives_zeros_without_a_kernel(recorder):
    output = attention(*tensors(heads=0), capability=A100)
    assert recorder.kernels() == []
    assert output.shape == (2, 0, 128, 64)


def test_what_pytorch_refuses_is_refused(recorder):
    query, key, value = tensors()
    with pytest.raises(RuntimeError, match="share dtype"):
        attention(query, key.float(), value, capability=A100)
    with pytest.raises(RuntimeError, match="attn_mask must be bool, float"):
        attention(query, key, value, a_mask(128, 128, dtype=torch.int32), capability=A100)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        attention(torch.empty(64, dtype=torch.bfloat16, device="cuda"), key, value, capability=A100)
    with pytest.raises(RuntimeError, match="No available kernel"), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        attention(query.double(), key.double(), value.double(), capability=A100)


def test_by_formula_a_mask_and_is_causal_exclude_each_other(recorder):
    with sdpa_kernel(SDPBackend.MATH), pytest.raises(RuntimeError, match="is_causal"):
        attention(*tensors(), a_mask(128, 128), is_causal=True, capability=A100)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.ones(4, 8), torch.ones(2, 8)])
    with pytest.raises(NotAvailable, match="pad them"):
        attention(nested, nested, nested, capability=A100)


def test_once_registered_torch_calls_it_for_cuda(registered, recorder):
    query, key, value = tensors()
    F.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.ops.aten.scaled_dot_product_attention(query, key, value)
    assert recorder.kernels() == ["flash", "flash"]


def test_once_registered_autocast_casts_before_it(registered, recorder, monkeypatch):
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    with torch.autocast("cuda", dtype=torch.float16):
        F.scaled_dot_product_attention(*tensors(dtype=torch.float32))
    assert recorder.kernels() == ["flash"]


def test_once_registered_attention_on_the_cpu_is_as_it_was(registered, recorder):
    F.scaled_dot_product_attention(*tensors(device="cpu", dtype=torch.float32))
    assert recorder.kernels() == ["cpu"]


def test_the_capability_is_asked_at_each_call(recorder):
    capabilities = iter([A100, H100])
    library = register_attention(lambda: next(capabilities))
    try:
        for _ in range(2):
            F.scaled_dot_product_attention(*tensors())
    finally:
        library._destroy()
    assert recorder.kernels() == ["flash", "cudnn"]
