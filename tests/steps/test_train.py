"""train_step equals the plain loop that its docstring names: same losses, same parameters, on the CPU."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from plain_torch import adam, assert_equal, parameters_of
from tiny_models import LanguageModel, Regressor
from torch import nn

from pytest_membudget.steps import train_step


@pytest.mark.parametrize(
    "batch_of",
    [
        pytest.param(lambda inputs, targets: (inputs, targets), id="tuple"),
        pytest.param(lambda inputs, targets: [inputs, targets], id="list"),
        pytest.param(lambda inputs, targets: {"inputs": inputs, "targets": targets}, id="mapping"),
    ],
)
def test_two_training_steps_equal_the_plain_loop(data, batch_of):
    model = Regressor()
    plain = deepcopy(model)
    optimizer, plain_optimizer = adam(model), adam(plain)

    losses = [train_step(model, optimizer, batch_of(*data)) for _ in range(2)]

    for loss in losses:
        expected = plain(*data)
        expected.backward()
        plain_optimizer.step()
        plain_optimizer.zero_grad()
        assert_equal(loss, expected.detach())
    assert_equal(parameters_of(model), parameters_of(plain))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda loss: loss, id="the output itself"),
        pytest.param(lambda loss: SimpleNamespace(loss=loss), id=".loss"),
        pytest.param(lambda loss: {"loss": loss}, id="a key"),
    ],
)
def test_the_loss_is_found_in_what_the_model_returns(data, answer):
    model = Regressor(answer)
    expected = F.mse_loss(model(data[0]), data[1]).detach()

    assert_equal(train_step(model, adam(model), data), expected)


def test_a_loss_function_is_given_the_output_and_the_batch(data):
    inputs, targets = data
    model = Regressor()
    expected = (F.l1_loss(model(inputs), targets) + inputs.sum()).detach()

    loss = train_step(
        model, adam(model), inputs, lambda output, batch: F.l1_loss(output, targets) + batch.sum()
    )

    assert_equal(loss, expected)


def test_a_step_leaves_a_detached_loss_and_no_gradients(data):
    model = Regressor()

    loss = train_step(model, adam(model), data)

    assert not loss.requires_grad
    assert loss.shape == ()
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("count", [2, 4, 8])
def test_accumulated_micro_batches_equal_one_large_batch(data, count):
    model = Regressor().double()
    large = deepcopy(model)
    data = [tensor.double() for tensor in data]

    loss = train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), data, accumulate=count)

    expected = train_step(large, torch.optim.SGD(large.parameters(), lr=0.1), data)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(parameters_of(model), parameters_of(large))


def test_micro_batches_drawn_from_an_iterator_equal_the_split_batch(data):
    model = Regressor()
    plain = deepcopy(model)
    optimizer, plain_optimizer = adam(model), adam(plain)
    inputs, targets = data
    two_epochs = iter([(inputs[i : i + 2], targets[i : i + 2]) for i in (0, 2, 4, 6)] * 2)

    losses = [train_step(model, optimizer, two_epochs, accumulate=4) for _ in range(2)]

    assert_equal(losses, [train_step(plain, plain_optimizer, data, accumulate=4) for _ in range(2)])
    assert_equal(parameters_of(model), parameters_of(plain))
    assert next(two_epochs, None) is None


def test_options_in_a_batch_go_to_every_micro_batch(data):
    batch = {"inputs": data[0], "targets": data[1], "scale": 2.0}
    model = Regressor()
    expected = F.mse_loss(2 * model(data[0]), data[1]).detach()

    torch.testing.assert_close(train_step(model, adam(model), batch, accumulate=2), expected)


def test_clipping_equals_the_plain_loop(data):
    model = Regressor()
    plain, unclipped = deepcopy(model), deepcopy(model)

    train_step(model, torch.optim.SGD(model.parameters(), lr=1.0), data, max_grad_norm=0.01)

    plain(*data).backward()
    nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
    torch.optim.SGD(plain.parameters(), lr=1.0).step()
    assert_equal(parameters_of(model), parameters_of(plain))
    train_step(unclipped, torch.optim.SGD(unclipped.parameters(), lr=1.0), data)
    assert not torch.equal(unclipped.layers[0].weight, model.layers[0].weight)


def test_autocast_covers_the_forward_pass_and_equals_the_plain_loop(data):
    model = Regressor()
    plain, full_precision = deepcopy(model), deepcopy(model)

    loss = train_step(model, adam(model), data, autocast_dtype=torch.bfloat16)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = plain(*data)
    expected.backward()
    adam(plain).step()
    assert_equal(loss, expected.detach())
    assert_equal(parameters_of(model), parameters_of(plain))
    assert not torch.equal(loss, train_step(full_precision, adam(full_precision), data))


def test_autocast_takes_a_batch_that_is_one_tensor(data):
    model = Regressor()
    seen = []

    train_step(
        model,
        adam(model),
        data[0],
        lambda output, _: seen.append(output.dtype) or output.float().mean(),
        autocast_dtype=torch.bfloat16,
    )

    assert seen == [torch.bfloat16]


def test_a_scaler_scales_unscales_and_clips_as_in_the_plain_loop(data):
    model = Regressor()
    plain = deepcopy(model)
    scaler, plain_scaler = (
        torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1) for _ in range(2)
    )

    loss = train_step(model, adam(model), data, max_grad_norm=0.01, scaler=scaler)

    optimizer, expected = adam(plain), plain(*data)
    plain_scaler.scale(expected).backward()
    plain_scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
    plain_scaler.step(optimizer)
    plain_scaler.update()
    assert_equal(loss, expected.detach())
    assert_equal(parameters_of(model), parameters_of(plain))
    assert scaler.get_scale() == 2048.0


@pytest.mark.parametrize(
    ("batch", "options", "error", "text"),
    [
        pytest.param(
            {1, 2}, {}, TypeError, "batch of type set: give a tensor, a mapping", id="a batch of another kind"
        ),
        pytest.param(
            torch.ones(4, 3), {}, TypeError, r"shape \(4, 1\).*pass loss=", id="an output of many numbers"
        ),
        pytest.param(
            torch.ones(4, 3),
            {"loss": lambda output, batch: 1.5},
            TypeError,
            "loss of Tensor is 1.5",
            id="a loss that is a float",
        ),
        pytest.param(
            torch.ones(4, 3),
            {"accumulate": 3},
            ValueError,
            r"shape \(4, 3\) does not split into accumulate=3",
            id="a batch that does not split",
        ),
        pytest.param(
            torch.ones(4, 3), {"accumulate": 0}, ValueError, "accumulate=0: give", id="no micro-batch"
        ),
        pytest.param(
            iter([]),
            {"accumulate": 2},
            ValueError,
            "gave 0 micro-batches where accumulate=2",
            id="a short iterator",
        ),
        pytest.param(
            [[1.0]],
            {"autocast_dtype": torch.bfloat16},
            ValueError,
            "needs a tensor",
            id="autocast on no device",
        ),
    ],
)
def test_a_step_that_cannot_run_says_what_to_pass(batch, options, error, text):
    model = Regressor()

    with pytest.raises(error, match=text):
        train_step(model, adam(model), batch, **options)


def test_a_model_without_a_loss_is_named(tokens):
    model = LanguageModel()

    with pytest.raises(TypeError, match=r"loss of SimpleNamespace is None.*labels"):
        train_step(model, adam(model), tokens)


@pytest.mark.parametrize("option", [{"accumulate": 2}, {"max_grad_norm": 1.0}, {"scaler": object()}])
def test_without_an_optimizer_nothing_that_needs_all_gradients_is_accepted(data, option):
    with pytest.raises(ValueError, match="need all gradients at once"):
        train_step(Regressor(), None, data, **option)
