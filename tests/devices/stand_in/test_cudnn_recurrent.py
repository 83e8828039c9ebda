"""Recurrent layers on the stand-in: cuDNN's own sizes, through PyTorch's own code."""

import warnings

import pytest
import torch
from allocations import requests, without
from cudnn_questions import needs_cudnn

pytestmark = needs_cudnn

STEPS, BATCH, WIDTH, LAYERS = 10, 4, 256, 2
FP32 = 4
OUTPUT = STEPS * BATCH * WIDTH * FP32
STATE = LAYERS * BATCH * WIDTH * FP32
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
#: What a layer keeps of a step, in widths: 4 layers 320 wide kept 736,000,000 bytes (LSTM) and 864,000,000
#: (GRU) of 25,000 steps (pytorch/pytorch#2895; their number is inferred). A plain RNN's is assumed.
KEPT_A_LAYER = {"RNN": 1, "LSTM": 5, "GRU": 6}


def run(name, train, dropout=0):
    """What forward and backward ask for; a warning is an error: weights lie in one chunk."""
    with warnings.catch_warnings(), torch.set_grad_enabled(train):
        warnings.simplefilter("error")
        layer = getattr(torch.nn, name)(WIDTH, WIDTH, LAYERS, dropout=dropout).cuda().train(train)
        layer.flatten_parameters()
        tensor = torch.empty(STEPS, BATCH, WIDTH, device="cuda", requires_grad=True)
        results = []
        forward = requests(lambda: results.append(layer(tensor)[0]))
        if not train:
            return forward, [], 0
        gradient = torch.empty_like(results[0])
        weights = list(layer.parameters())
        backward = requests(lambda: torch.autograd.grad(results, [tensor, *weights], gradient))
        return forward, backward, weights[0].untyped_storage().nbytes()


def reserve_bytes(steps_of_samples, width, layers, name, number):
    """What cuDNN keeps of a forward pass: ``steps_of_samples`` steps of all samples together."""
    return steps_of_samples * width * (KEPT_A_LAYER[name] * layers + layers - 1) * number


@pytest.mark.parametrize("name", GATES)
def test_the_reserve_is_what_was_published_of_such_layers(stand_in, name):
    """pytorch/pytorch#2895: widths kept a step; cuDNN 9 adds at most 512 bytes.

    Backward takes the same workspace twice and a flat gradient of the weights; without training there is no
    reserve. An LSTM has two states, each of zeros first and as a result.
    """
    (forward, backward, flat), (inferred, *_) = (stand_in(run, name, train) for train in (True, False))

    states = [OUTPUT] + 2 * (2 if name == "LSTM" else 1) * [STATE]
    workspace, reserve = without(forward, *states)
    weights = LAYERS * GATES[name] * (2 * WIDTH * WIDTH + 2 * WIDTH) * FP32
    assert 0 <= reserve - reserve_bytes(STEPS * BATCH, WIDTH, LAYERS, name, FP32) <= 512
    assert flat == weights
    assert sorted(backward)[-3:] == sorted([workspace, workspace, weights])
    assert len(without(inferred, *states)) == 1


def test_dropout_keeps_a_generators_states_for_every_second_thread_of_the_card(stand_in):
    forward, *_ = stand_in(run, "LSTM", True, 0.5)

    assert 108 * 2048 // 2 * 48 in forward


def both_algorithms():
    """Narrow layers run on persistent kernels, wide ones do not; both in two directions and packed."""
    sizes = []
    for width in (64, 512):
        layer = torch.nn.GRU(width, width, bidirectional=True).cuda()
        tensor = torch.empty(STEPS, BATCH, width, device="cuda", requires_grad=True)
        layer(tensor)[0].sum().backward()
        packed = torch.nn.utils.rnn.pack_padded_sequence(tensor, [STEPS] * BATCH)
        layer(packed)[0].data.sum().backward()
        sizes.append(layer.weight_hh_l0.grad.shape)
    return sizes


def test_persistent_algorithms_and_packed_sequences_run(stand_in):
    assert stand_in(both_algorithms) == [[192, 64], [1536, 512]]


def half_precision():
    layer = torch.nn.LSTM(128, 128).cuda().half()
    tensor = torch.empty(STEPS, 64, 128, device="cuda", dtype=torch.half)
    return requests(lambda: layer(tensor))


@pytest.mark.parametrize("gpu", ["A100-80GB", "H100-80GB", "T4"])
def test_half_precision_runs_on_every_card(stand_in, gpu):
    """The persistent kernels of half precision need to know the card."""
    published = reserve_bytes(STEPS * 64, 128, 1, "LSTM", 2)
    assert any(0 <= size - published <= 512 for size in stand_in(half_precision, gpu=gpu))
