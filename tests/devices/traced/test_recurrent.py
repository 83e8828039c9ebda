"""Recurrent layers as cuDNN runs them: flat weights, what is kept for backward, gradients in one buffer."""

import pytest
import torch
from pytest_membudget.devices.fake.recurrent_kernels import reserve_bytes
from torch import nn

RELU, TANH, LSTM, GRU = range(4)  # cudnnRNNMode_t


@pytest.mark.parametrize(("mode", "published"), [(LSTM, 736_000_000), (GRU, 864_000_000)])
def test_a_reserve_is_as_published(mode, published):
    """pytorch/pytorch#2895: 4 layers 320 wide in fp32; 25,000 steps of all samples are inferred."""
    assert reserve_bytes(25_000, 320, 4, 1, mode, 4) == published


def layers(kind, train):
    model = getattr(nn, kind)(64, 128, num_layers=2, batch_first=True, bidirectional=True, device="cuda")
    model.flatten_parameters()
    with torch.set_grad_enabled(train):
        output, _ = model.train(train)(torch.randn(4, 10, 64, device="cuda"))
    if train:
        output.sum().backward()
    return list(output.shape), list(output.stride()), torch.backends.cudnn.enabled


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_run_on_cudnn_and_what_it_hides_is_listed(trace, kind, train):
    """``batch_first``: the output lies steps first, and is transposed."""
    traced = trace(layers, kind, train)

    assert traced.value == [[4, 10, 256], [256, 4 * 256, 1], True]
    listed = [note.partition(",")[0] for note in traced.report.not_modelled]
    assert listed == ["aten::_cudnn_rnn", "aten::_cudnn_rnn_backward"][: 1 + train]


def flat_weights(bias):
    model = nn.LSTM(256, 512, num_layers=2, bias=bias, device="cuda")
    storages = {weight.untyped_storage()._cdata for weight in model.parameters()}
    return len(storages), next(model.parameters()).untyped_storage().nbytes()


@pytest.mark.parametrize("bias", [True, False])
def test_weights_lie_in_one_buffer_with_room_for_biases(trace, bias):
    """Two layers of four gates: from 256 and 512, then 512 and 512; two biases each, asked for or not."""
    numbers = 4 * 512 * (256 + 512 + 512 + 512) + 2 * 2 * 4 * 512

    assert trace(flat_weights, bias).value == [1, 4 * numbers]


def kept_for_backward():
    model = nn.LSTM(256, 512, num_layers=2, device="cuda")
    tensor = torch.randn(100, 32, 256, device="cuda")
    before = torch.cuda.memory_allocated()
    output, _ = model(tensor)
    after = torch.cuda.memory_allocated()
    output.sum().backward()
    storages = {weight.grad.untyped_storage()._cdata for weight in model.parameters()}
    return after - before, len(storages)


def test_a_layer_keeps_its_output_its_states_and_the_reserve(trace):
    """Both states of both layers, first and last, of 32 x 512 each; a reserve of 5 x 2 + 1 widths a step."""
    output, states, reserve = 100 * 32 * 512, 2 * 2 * 2 * 32 * 512, 100 * 32 * 512 * 11

    traced = trace(kept_for_backward)

    assert traced.value == [4 * (output + states + reserve), 1]
    weights = 4 * (4 * 512 * (256 + 3 * 512) + 4 * 4 * 512)
    assert (traced.parameters, traced.gradients) == (weights, weights)


def twice():
    model = nn.GRU(256, 256, device="cuda")
    for _ in range(3):
        model(torch.randn(10, 4, 256, device="cuda"))[0].sum().backward()
    return torch.cuda.memory_allocated()


def test_gradients_are_added_to_in_place(trace):
    """Weights, and one gradient of each: three gates of 2 x 256 x 256, with two biases."""
    assert trace(twice).value == pytest.approx(2 * 4 * 3 * (2 * 256 * 256 + 2 * 256), abs=2 * 2**20)


def in_autocast():
    model = nn.LSTM(64, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output, _ = model(torch.randn(5, 2, 64, device="cuda"))
    output.float().sum().backward()
    return str(output.dtype), str(next(model.parameters()).grad.dtype)


def test_autocast_runs_a_layer_in_fp16_whatever_its_type(trace):
    assert trace(in_autocast).value == ["torch.float16", "torch.float32"]


def without_cudnn():
    with torch.backends.cudnn.flags(enabled=False):
        nn.LSTM(64, 64, device="cuda")(torch.randn(5, 2, 64, device="cuda"))


def test_a_layer_without_cudnn_runs_as_cells(trace):
    assert trace(without_cudnn).report.not_modelled == ()


def backward_after_evaluating():
    model = nn.LSTM(64, 64, device="cuda").eval()
    try:
        model(torch.randn(5, 2, 64, device="cuda"))[0].sum().backward()
    except RuntimeError as error:
        return str(error)
    return None


def test_no_backward_of_a_layer_in_evaluation_as_on_cuda(trace):
    assert trace(backward_after_evaluating).value == "cudnn RNN backward can only be called in training mode"
