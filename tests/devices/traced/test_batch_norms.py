"""Batch norm on the virtual device: the operator chosen, what it saves, and what its kernels hold beside.

Figures are by hand from the sources' formulas; where a test says "recorded", the figure stands in a public
allocator history of a real GPU.
"""

import pytest
import torch
from pytest_membudget.devices.fake.batch_norm_choice import runs_on_cudnn
from pytest_membudget.devices.fake.kernel_batch_norms import BATCH_NORM_RULES

from pytest_membudget.hardware.gpus import find_gpu

aten = torch.ops.aten
A100 = find_gpu("A100-80GB")


def meta(*shape, dtype=torch.float32, last=False):
    tensor = torch.empty(shape, dtype=dtype, device="meta")
    return tensor.to(memory_format=torch.channels_last) if last else tensor


def chosen(tensor, parameters=torch.float32, training=True):
    vector = meta(tensor.shape[1], dtype=parameters)
    return runs_on_cudnn(tensor, [vector] * 4, training)


def held(operator, *args, result=None):
    return [size for size in BATCH_NORM_RULES[operator](args, {}, result, A100) if size]


# --- the operator


@pytest.mark.parametrize(
    ("dtype", "parameters", "on_cudnn"),
    [
        (torch.float32, torch.float32, True),
        (torch.float64, torch.float64, True),
        (torch.float16, torch.float32, True),
        (torch.float16, torch.float16, False),
        (torch.bfloat16, torch.float32, False),
        (torch.bfloat16, torch.bfloat16, False),
    ],
)
def test_cudnn_normalizes_all_but_bf16_and_halves_with_parameters_in_halves(dtype, parameters, on_cudnn):
    assert chosen(meta(4, 8, 14, 14, dtype=dtype), parameters) is on_cudnn


def test_cudnn_normalizes_no_batch_of_vectors():
    assert not chosen(meta(4, 8))
    assert chosen(meta(4, 8, 1))


def test_cudnn_takes_fewer_rows_in_evaluation():
    assert chosen(meta(65_536, 8, 1), training=True)
    assert not chosen(meta(65_536, 8, 1), training=False)
    assert not chosen(meta(880_802, 8, 1), training=True)


def test_cudnn_counts_in_32_bits():
    assert chosen(meta(2**15 - 1, 8, 128, 64))
    assert not chosen(meta(2**15, 8, 128, 64))


def test_without_parameters_pytorch_normalizes():
    assert not runs_on_cudnn(meta(4, 8, 14, 14), [None] * 4, True)


def test_without_running_statistics_cudnn_only_trains():
    weight = meta(8)
    assert runs_on_cudnn(meta(4, 8, 14, 14), [weight, weight, None, None], True)
    assert not runs_on_cudnn(meta(4, 8, 14, 14), [weight, weight, None, None], False)


# --- what is saved, in every build


def saved_by(dtype, training, last):
    layer = torch.nn.BatchNorm2d(512, device="cuda").train(training)
    images = torch.randn(2, 512, 4, 4, device="cuda", dtype=getattr(torch, dtype))
    if last:
        images = images.to(memory_format=torch.channels_last)
    output = layer(images.requires_grad_())
    node = output.grad_fn
    statistics = [node._saved_result1, node._saved_result2]
    return {
        "node": node.name(),
        "statistics": [[str(tensor.dtype), tensor.numel()] for tensor in statistics],
        "strides": list(output.stride()),
        "gradient": list(torch.autograd.grad(output, images, torch.ones_like(output))[0].stride()),
    }


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_training_on_cudnn_saves_two_statistics_in_fp32(trace, dtype, last):
    """Recorded (JasperSolt/EoR_NN, snapshot.pickle): the output, and two statistics of 4 bytes a channel."""
    saved = trace(saved_by, dtype, True, last).value

    strides = [8192, 1, 2048, 512] if last else [8192, 16, 4, 1]
    assert saved == {
        "node": "CudnnBatchNormBackward0",
        "statistics": [["torch.float32", 512]] * 2,
        "strides": strides,
        "gradient": strides,
    }


def test_evaluation_on_cudnn_saves_no_statistics(trace):
    saved = trace(saved_by, "float32", False, False).value

    assert (saved["node"], saved["statistics"]) == (
        "CudnnBatchNormBackward0",
        [["torch.float32", 0]] * 2,
    )


@pytest.mark.parametrize("training", [True, False])
def test_bf16_under_autocast_is_pytorchs_own_and_always_saves_statistics(trace, training):
    saved = trace(saved_by, "bfloat16", training, True).value

    assert (saved["node"], saved["statistics"]) == (
        "NativeBatchNormBackward0",
        [["torch.float32", 512]] * 2,
    )


def normalized_in_inference_mode():
    layer = torch.nn.BatchNorm2d(8, device="cuda").train()
    with torch.inference_mode():
        images = torch.randn(4, 8, 64, 64, device="cuda")
        before = virtual_device.ledger.births  # noqa: F821 - the device server puts it here
        layer(images)
        return virtual_device.ledger.births - before  # noqa: F821


def test_inference_mode_runs_the_operator_that_training_does(trace):
    """Its output and two statistics: the operator is not seen as one whole of unknown parts."""
    assert trace(normalized_in_inference_mode).value == 3


# --- temporaries


def test_many_rows_in_channels_last_are_split_over_blocks():
    """32 x 56 x 56 rows of 64 channels: blocks of 32 x 16 threads, 16 rows a thread: 392, but at most 128.

    Each leaves four numbers a channel; two blocks lie beside each other, with a semaphore each.
    """
    tensor = meta(32, 64, 56, 56, dtype=torch.bfloat16, last=True)

    sizes = held(aten.native_batch_norm.default, tensor, None, None, None, None, True, 0.1, 1e-5)

    assert sizes == [4 * 64 * 128 * 4, 2 * 4]


def test_few_rows_are_not_split():
    """8 x 7 x 7 = 392 rows: 24.5 a thread, blocks of 32 x 16: two of them are not worth it."""
    tensor = meta(8, 512, 7, 7, dtype=torch.bfloat16, last=True)

    assert held(aten.native_batch_norm.default, tensor, None, None, None, None, True, 0.1, 1e-5) == []


@pytest.mark.parametrize(("last", "training"), [(False, True), (True, False)])
def test_nchw_and_evaluation_hold_nothing(last, training):
    tensor = meta(32, 64, 56, 56, dtype=torch.bfloat16, last=last)

    assert held(aten.native_batch_norm.default, tensor, None, None, None, None, training, 0.1, 1e-5) == []


def backward(gradient, tensor, mask=(True, True, True)):
    vector = meta(tensor.shape[1])
    args = (gradient, tensor, vector, vector, vector, vector, vector, True, 1e-5, list(mask))
    return held(aten.native_batch_norm_backward.default, *args, result=(tensor, vector, vector))


def test_backward_in_channels_last_holds_two_sums_a_channel():
    """The blocks' sums are gone before the gradient, which is larger, is there."""
    tensor = meta(32, 64, 56, 56, dtype=torch.bfloat16, last=True)

    assert backward(tensor, tensor) == [4 * 64, 4 * 64]


def test_backward_without_the_inputs_gradient_peaks_in_the_blocks_sums():
    tensor = meta(32, 64, 56, 56, dtype=torch.bfloat16, last=True)

    assert backward(tensor, tensor, (False, True, True)) == [4 * 64, 4 * 64, 2 * 64 * 128 * 4 + 2 * 4]


def test_backward_in_nchw_copies_an_expanded_gradient():
    tensor = meta(32, 64, 56, 56, dtype=torch.bfloat16)

    assert backward(tensor, tensor) == []
    assert backward(meta(1, dtype=torch.bfloat16).expand(tensor.shape), tensor) == [2 * tensor.numel()]


def test_cudnns_backward_copies_a_gradient_that_lies_otherwise():
    tensor, gradient = meta(4, 8, 14, 14, last=True), meta(4, 8, 14, 14)

    assert held(aten.cudnn_batch_norm_backward.default, tensor, gradient) == [4 * 4 * 8 * 14 * 14]
    assert held(aten.cudnn_batch_norm_backward.default, tensor, tensor) == []
