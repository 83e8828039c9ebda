"""Recurrent layers as cuDNN runs them: what is kept for backward, and gradients in one buffer."""

import pytest
import torch
from torch import nn


def layers(kind):
    model = getattr(nn, kind)(64, 128, num_layers=2, batch_first=True, bidirectional=True, device="cuda")
    output, _ = model(torch.randn(4, 10, 64, device="cuda"))
    output.sum().backward()
    return list(output.shape), list(output.stride()), torch.backends.cudnn.enabled


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_run_on_cudnn_and_nothing_is_missing(trace, kind):
    """``batch_first``: the output lies steps first, and is transposed."""
    traced = trace(layers, kind)

    assert traced.value == [[4, 10, 256], [256, 4 * 256, 1], True]
    assert traced.report.not_modelled == ()


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
    """Both states of both layers, first and last, of 32 x 512 each; a reserve of 5 x 2 + 1 widths a step.

    The reserve is what was published of such layers (pytorch/pytorch#2895); cuDNN 9 adds at most 512 bytes.
    """
    output, states, reserve = 100 * 32 * 512, 2 * 2 * 2 * 32 * 512, 100 * 32 * 512 * 11

    traced = trace(kept_for_backward)

    kept, storages = traced.value
    assert 0 <= kept - 4 * (output + states + reserve) <= 512
    assert storages == 1
    weights = 4 * (4 * 512 * (256 + 3 * 512) + 4 * 4 * 512)
    assert (traced.parameters, traced.gradients) == (weights, weights)
