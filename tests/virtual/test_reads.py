"""Reads of data that nobody knows: a plausible answer, and a line in the report's assumptions."""

import re

import numpy
import pytest
import torch
from torch import nn

DEVICES = ["cpu", "cuda"]


def here(body, line=1):
    """The place of a line of ``body``, as the report writes it."""
    return f"test_reads.py:{body.__code__.co_firstlineno + line}"


def reads_by_type(assumptions):
    found = {}
    for text in assumptions:
        dtype, times = re.search(r"reads an? (\w+) value \((once|\d+)", text).groups()
        found[dtype] = found.get(dtype, 0) + (1 if times == "once" else int(times))
    return found


def item(dtype, device):
    return torch.empty(3, dtype=getattr(torch, dtype), device=device)[0].item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 1.0), ("bfloat16", 1.0), ("int64", 1), ("uint8", 1), ("bool", False)]
)
def test_an_unknown_number_is_one_and_an_unknown_boolean_false(trace, dtype, value, device):
    traced = trace(item, dtype, device)

    assert (traced.value, type(traced.value)) == (value, type(value))
    article = "an" if dtype == "int64" else "a"
    assert traced.report.assumptions == (
        f"{here(item)} reads {article} {dtype} value (once): taken to be {value}",
    )


def known_item():
    return [
        torch.tensor(2.5, device="cuda").item(),
        bool(torch.tensor([0])),
        int(torch.tensor(7, device="cuda")),
    ]


def test_a_known_value_is_no_assumption(trace):
    traced = trace(known_item)

    assert traced.value == [2.5, False, 7]
    assert not traced.report.assumptions


def read_often():
    losses = []
    for _ in range(3):
        losses.append(torch.randn((), device="cuda").item())
    return losses


def test_reads_of_one_line_are_counted(trace):
    traced = trace(read_often)

    assert traced.report.assumptions == (
        f"{here(read_often, 3)} reads a float32 value (3 times): taken to be 1.0",
    )


def in_every_way(device):
    x = torch.randn(2, device=device)
    return [
        float(x[0]), int(x[0]), bool(x[0] > 0), x.tolist(), 3.0 in x, torch.is_nonzero(x[0] > 0),
        x.cpu().numpy().tolist(), numpy.asarray(x.cpu()).tolist(), f"{x[0]:.2f}",
        f"{x[0]:>4.1f}", format(x.sum(), "e"),
    ]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_every_way_of_reading_gives_the_plausible_value(trace, device):
    traced = trace(in_every_way, device)

    assert traced.value == [
        1.0, 1, False, [1.0, 1.0], False, False, [1.0, 1.0], [1.0, 1.0], "1.00", " 1.0", "1.000000e+00",
    ]  # fmt: skip
    assert reads_by_type(traced.report.assumptions) == {"float32": 8, "bool": 3}


def listed():
    return [torch.randn(4, 2, device="cuda").tolist(), torch.randn(4, 2).numpy().shape]


def test_a_whole_tensor_is_one_read(trace):
    assert trace(listed).report.assumptions == (
        f"{here(listed)} reads a float32 value (2 times): taken to be 1.0",
    )


def as_arrays():
    x = torch.arange(3)
    return [
        str(x.numpy().dtype), x.numpy().tolist(), numpy.array(x, dtype=numpy.float64).tolist(),
        numpy.asarray(x[1:]).tolist(), float(numpy.mean(torch.ones(4).numpy())),
        torch.ones(2, device="cuda", requires_grad=True).numpy(force=True).tolist(),
        [10, 20, 30][x[1]], list(range(x[2])), [int(i) for i in torch.arange(2, device="cuda")],
    ]  # fmt: skip


def test_known_tensors_become_arrays_indices_and_ranges(trace):
    traced = trace(as_arrays)

    assert traced.value == [
        "int64", [0, 1, 2], [0.0, 1.0, 2.0], [1, 2], 1.0, [1.0, 1.0], 20, [0, 1], [0, 1],
    ]  # fmt: skip
    assert not traced.report.assumptions


def numpy_refused(how):
    tensors = {
        "cuda": torch.ones(2, device="cuda"),
        "requires_grad": torch.ones(2, requires_grad=True),
        "bfloat16": torch.ones(2, dtype=torch.bfloat16),
    }
    try:
        tensors[how].numpy()
    except (TypeError, RuntimeError) as error:
        return [type(error).__name__, str(error)]


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("cuda", "TypeError", "Use Tensor.cpu() to copy the tensor to host memory first."),
        ("requires_grad", "RuntimeError", "Use tensor.detach().numpy() instead."),
        ("bfloat16", "TypeError", "unsupported ScalarType BFloat16"),
    ],
)
def test_numpy_refuses_what_it_refuses_on_a_real_device(trace, how, error, text):
    name, message = trace(numpy_refused, how).value

    assert name == error
    assert text in message


def printed():
    return [
        str(torch.arange(3, device="cuda")), repr(torch.tensor([1.5])), str(torch.randn(2, 3, device="cuda")),
        str(torch.randn(1, dtype=torch.float16)), repr(nn.Parameter(torch.zeros(1, device="cuda"))),
        str(torch.randn(5000, 5000, device="cuda")), f"{torch.randn(2, device='cuda')}",
    ]  # fmt: skip


def test_tensors_print_as_tensors_and_are_not_read_for_it(trace):
    traced = trace(printed)

    assert traced.value == [
        "tensor([0, 1, 2], device='cuda:0')", "tensor([1.5000])", "tensor(..., device='cuda:0', size=(2, 3))",
        "tensor(..., size=(1,), dtype=torch.float16)",
        "Parameter containing:\ntensor([0.], device='cuda:0', requires_grad=True)",
        "tensor(..., device='cuda:0', size=(5000, 5000))", "tensor(..., device='cuda:0', size=(2,))",
    ]  # fmt: skip
    assert not traced.report.assumptions


def compared(device):
    x, y = torch.arange(3, device=device), torch.arange(1, 4, device=device)
    unknown = torch.randn(3, device=device)
    return [
        torch.equal(x, x.clone()), torch.equal(x, y), torch.equal(x, x[:2]), torch.equal(unknown, unknown),
        torch.equal(unknown, unknown[:2]), torch.allclose(x.float(), y.float()),
        torch.allclose(x.float(), y.float(), atol=1.0),
    ]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_known_tensors_are_compared_for_real(trace, device):
    traced = trace(compared, device)

    assert traced.value == [True, False, False, True, False, False, True]
    assert not traced.report.assumptions


def compared_unknown(how):
    first, second = torch.randn(3, device="cuda"), torch.randn(3, device="cuda")
    if how == "assert_close":
        return torch.testing.assert_close(first, second) is None
    return getattr(torch, how)(first, second)


@pytest.mark.parametrize("how", ["equal", "allclose", "assert_close"])
def test_unknown_tensors_are_taken_to_be_equal(trace, how):
    """A test that asserts it goes on, and a loop up to convergence ends."""
    traced = trace(compared_unknown, how)

    assert traced.value is True
    place = here(compared_unknown, 3 if how == "assert_close" else 4)
    assert traced.report.assumptions == (f"{place} reads a bool value (once): taken to be True",)


def drawn():
    skipped = [bool(torch.rand(()) < 0.1) for _ in range(3)]
    return [
        skipped, bool(torch.rand(1) > 0.1), torch.randperm(3).tolist(), torch.randint(5, 9, (2,)).tolist(),
        torch.randint(0, 1, (1,)).item(), torch.multinomial(torch.ones(4), 2).tolist(),
        torch.empty(1).uniform_(2, 4).item(), torch.randint(100, (2, 3), device="cuda").max().item(),
    ]  # fmt: skip


def test_draws_are_within_their_range_and_are_listed(trace):
    """Every run of a test gives the same estimate: what is likely happens, and nothing is shuffled."""
    traced = trace(drawn)

    assert traced.value == [[False] * 3, True, [0, 1, 2], [5, 5], 0, [0, 1], 3.0, 1]
    first = drawn.__code__.co_firstlineno
    lines = {int(text.split()[0].rpartition(":")[2]) - first for text in traced.report.assumptions}
    assert lines == {1, 3, 4, 5}


def trained_with_layer_drop(rate):
    layers = nn.ModuleList(nn.Linear(64, 64, bias=False, device="cuda") for _ in range(4))
    hidden = torch.randn(1, 64, device="cuda")
    for layer in layers:
        if torch.rand(()) < rate:
            continue
        hidden = layer(hidden)
    hidden.sum().backward()
    return sum(layer.weight.grad is not None for layer in layers)


def test_layer_drop_drops_no_layer(trace):
    traced = trace(trained_with_layer_drop, 0.2)

    assert traced.value == 4
    assert traced.report.assumptions == (
        f"{here(trained_with_layer_drop, 4)} reads a bool value (4 times): taken to be False",
    )


def initialised(name):
    weight = torch.empty(16, 16, device="cuda")
    keywords = {"sparse_": {"sparsity": 0.1}, "constant_": {"val": 1.0}}.get(name, {})
    getattr(nn.init, name)(weight, **keywords)
    return list(weight.shape)


@pytest.mark.parametrize(
    "name",
    [
        "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "xavier_uniform_",
        "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_",
    ],
)  # fmt: skip
def test_initialisation_comes_to_an_end(trace, name):
    assert trace(initialised, name).value == [16, 16]


def truncated_by_rejection():
    values = torch.randn(100, device="cuda")
    while (outside := values.abs() > 2).any():
        values = torch.where(outside, torch.randn_like(values), values)
    return True


def test_a_loop_that_draws_until_nothing_is_outside_ends(trace):
    assert trace(truncated_by_rejection).value is True


def dropped_out():
    x = torch.randn(2, 3, 4, 4, device="cuda")
    layers = nn.Dropout(0.1), nn.Dropout2d(0.1), nn.AlphaDropout(0.1), nn.FeatureAlphaDropout(0.1), nn.RReLU()
    return [list(layer(x).shape) for layer in layers]


def test_dropout_modules_run(trace):
    traced = trace(dropped_out)

    assert traced.value == [[2, 3, 4, 4]] * 5
    assert not traced.report.assumptions


def sampled():
    normal = torch.distributions.Normal(torch.randn(3, device="cuda"), torch.rand(3, device="cuda"))
    normal.log_prob(normal.rsample()).sum()
    categorical = torch.distributions.Categorical(logits=torch.randn(2, 5, device="cuda"))
    action = categorical.sample()
    categorical.log_prob(action)
    return action[0].item()


def test_distributions_are_sampled_from(trace):
    """A policy's parameters are what its network gives: nobody knows that they are valid."""
    assert trace(sampled).value == 0
