"""Recurrent layers on the stand-in: cuDNN's own sizes, through PyTorch's own code."""

import warnings

import pytest
import torch
from cudnn_calls import requests, without
from cudnn_questions import needs_cudnn

pytestmark = needs_cudnn

STEPS, BATCH, WIDTH, LAYERS = 10, 4, 256, 2
FP32 = 4
OUTPUT = STEPS * BATCH * WIDTH * FP32
STATE = LAYERS * BATCH * WIDTH * FP32
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def run(name, *, train=True, dtype="float32", **options):
    """What forward and backward ask for; a warning is an error: weights lie in one chunk."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dtype = getattr(torch, dtype)
        layer = getattr(torch.nn, name)(WIDTH, WIDTH, LAYERS, **options).cuda().to(dtype).train(train)
        layer.flatten_parameters()
        tensor = torch.empty(STEPS, BATCH, WIDTH, device="cuda", dtype=dtype, requires_grad=True)
        results = []
        forward = requests(lambda: results.append(layer(tensor)[0]))
        if not train:
            return forward, [], 0
        gradient = torch.empty_like(results[0])
        weights = list(layer.parameters())
        backward = requests(lambda: torch.autograd.grad(results, [tensor, *weights], gradient))
        return forward, backward, weights[0].untyped_storage().nbytes()


def forward_and_backward(name):
    return run(name)


def inference(name):
    with torch.no_grad():
        return run(name, train=False)


def with_dropout(name):
    return run(name, dropout=0.5)


def states(name):
    """The states that PyTorch makes of zeros, and the results: two states for an LSTM."""
    count = 2 if name == "LSTM" else 1
    return [OUTPUT] + 2 * count * [STATE]


#: What a layer keeps of a step, in widths: 4 layers 320 wide kept 736,000,000 bytes (LSTM) and 864,000,000
#: (GRU) of 25,000 steps (pytorch/pytorch#2895; their number is inferred). A plain RNN's is assumed.
KEPT_A_LAYER = {"RNN": 1, "LSTM": 5, "GRU": 6}


def reserve_bytes(steps_of_samples, width, layers, name, number):
    """What cuDNN keeps of a forward pass: ``steps_of_samples`` steps of all samples together."""
    return steps_of_samples * width * (KEPT_A_LAYER[name] * layers + layers - 1) * number


@pytest.mark.parametrize("name", GATES)
def test_the_reserve_is_what_was_published_of_such_layers(stand_in, name):
    """pytorch/pytorch#2895: widths kept a step; cuDNN 9 adds at most 512 bytes."""
    forward, _, _ = stand_in(forward_and_backward, name)

    _, reserve = without(forward, *states(name))

    published = reserve_bytes(STEPS * BATCH, WIDTH, LAYERS, name, FP32)
    assert 0 <= reserve - published <= 512


@pytest.mark.parametrize("name", GATES)
def test_backward_takes_the_same_workspace_twice_and_a_flat_gradient_of_the_weights(stand_in, name):
    forward, backward, flat = stand_in(forward_and_backward, name)
    workspace, _ = without(forward, *states(name))

    weights = LAYERS * GATES[name] * (2 * WIDTH * WIDTH + 2 * WIDTH) * FP32

    assert flat == weights
    assert sorted(backward)[-3:] == sorted([workspace, workspace, weights])


@pytest.mark.parametrize("name", GATES)
def test_without_training_there_is_no_reserve(stand_in, name):
    forward, _, _ = stand_in(inference, name)

    assert len(without(forward, *states(name))) == 1


def test_dropout_keeps_a_generators_states_for_every_second_thread_of_the_card(stand_in):
    forward, _, _ = stand_in(with_dropout, "LSTM")

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
    forward = stand_in(half_precision, gpu=gpu)

    published = reserve_bytes(STEPS * 64, 128, 1, "LSTM", 2)
    assert any(0 <= size - published <= 512 for size in forward)
