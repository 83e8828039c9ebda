"""What is computed from parameters alone, and kept, is parameters; figures by hand.

A weight of 512 x 512 numbers is 1 MiB in fp32, half of it in bf16. Batches of 4 rows are 8 KiB.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

from tests.devices.stand_in.small_layers import MIB, batch, linear, measured, peak

HALF = MIB // 2
BATCH = 4 * 512 * 4


class Written(nn.Module):
    """Casts its weight by hand, as torchtitan's and diffusers' models do."""

    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(512, 512, device="cuda"))
        self.dtype = dtype

    def forward(self, x):
        y = nn.functional.linear(x.to(torch.bfloat16), self.weight.to(self.dtype).to(torch.bfloat16))
        peak()
        return y.square()


# With a graph, which keeps it for the backward; the batch needs a gradient, or no weight would be kept


def trained(name):
    loss = LAYERS[name]()(batch().requires_grad_()).sum()
    peak()
    loss.backward()


def autocast_trained():
    model, x = nn.Sequential(linear(), linear()), batch().requires_grad_()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).sum()
    peak()
    loss.backward()


def cast_without_a_module():
    weight = nn.Parameter(torch.zeros(512, 512, device="cuda"))
    optimizer, x = torch.optim.SGD([weight]), batch().requires_grad_()
    for _ in range(2):
        loss = nn.functional.linear(x.to(torch.bfloat16), weight.to(torch.bfloat16)).sum()
        peak()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def checkpointed():
    """The cast of the recomputation; that of the forward is gone."""
    model = Written()
    checkpoint(model, batch().requires_grad_(), use_reentrant=False).sum().backward()


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


class LowRank(nn.Module):
    """LoRA that adds up weights, not outputs."""

    def __init__(self):
        super().__init__()
        self.base = linear()
        self.down = nn.Parameter(torch.zeros(8, 512, device="cuda"))
        self.up = nn.Parameter(torch.zeros(512, 8, device="cuda"))

    def forward(self, x):
        return nn.functional.linear(x, self.base.weight + self.up @ self.down)


def tied():
    """One cast serves both: autocast finds a weight by its tensor."""
    first, second = linear(), linear()
    second.weight = first.weight
    x = batch().requires_grad_()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = second(first(x)).sum()
    peak()
    loss.backward()


def with_symmetric_weight():
    layer = linear()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


def called_with_other_weights():
    layer = linear()
    weights = {name: weight * 2 for name, weight in layer.named_parameters()}
    return lambda x: torch.func.functional_call(layer, weights, (x,))


LAYERS = {
    "cast by hand": Written,
    "weight norm": lambda: parametrizations.weight_norm(linear()),
    "weight norm before parametrizations": lambda: nn.utils.weight_norm(linear()),
    "spectral norm": lambda: parametrizations.spectral_norm(linear()),
    "parametrized": with_symmetric_weight,
    "merged low rank": LowRank,
    "functional": called_with_other_weights,
}
TRAINED = [
    (trained, "cast by hand", MIB + HALF),
    (trained, "weight norm", 2 * MIB + 2 * 2048),  # directions, weight; lengths, norms
    (trained, "weight norm before parametrizations", 2 * MIB + 2 * 2048),
    (trained, "spectral norm", 2 * MIB),
    (trained, "parametrized", 2 * MIB),
    (trained, "merged low rank", 2 * MIB + 2 * 8 * 2048),
    (trained, "functional", 2 * MIB),
    (autocast_trained, None, 2 * MIB + 2 * HALF),
    (cast_without_a_module, None, MIB + HALF),
    (checkpointed, None, MIB + HALF),
    (tied, None, MIB + HALF),
]


@pytest.mark.parametrize(("body", "layer", "parameters"), TRAINED)
def test_what_backward_needs_of_parameters_alone_is_parameters(trace, body, layer, parameters):
    assert trace(body, *filter(None, [layer])).has(parameters=parameters, frozen_parameters=0)


# Without one


def autocast():
    model = nn.Sequential(linear(), linear())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(batch())
        peak()


def autocast_without_a_module():
    weight = nn.Parameter(torch.zeros(512, 512, device="cuda"))
    module = nn.Module()
    module.weight = weight
    with torch.autocast("cuda", dtype=torch.bfloat16):
        nn.functional.linear(batch(), weight)
        peak()


def kept_parametrization():
    layer = with_symmetric_weight()
    with parametrize.cached():
        layer(batch())
        peak()


def merged():
    model = LowRank()
    model.base.weight.data = model.base.weight + model.up @ model.down
    peak()
    model(batch())


def exchanged():
    """Memory that was computed from nothing, as a loader's."""
    layer = linear()
    layer.weight.data = torch.zeros(512, 512, device="cuda")
    peak()
    layer(batch())


def set_elsewhere():
    layer = linear()
    layer.weight.set_(torch.zeros(512, 512, device="cuda"))
    peak()
    layer(batch())


class Repacked(nn.Module):
    """As quantised layers do, in their first call."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(512, 512, device="cuda"))

    def forward(self, x):
        self.weight.data = torch.zeros(512, 512, device="cuda", dtype=torch.bfloat16)
        peak()
        return x.to(torch.bfloat16) @ self.weight


def exchanged_in_forward():
    Repacked()(batch())


def swapped():
    layer = linear()
    torch.utils.swap_tensors(layer.weight, nn.Parameter(torch.zeros(512, 512, device="cuda")))
    peak()
    return layer.weight.dim()


def cast_module():
    layer = linear().to(torch.bfloat16)
    peak()
    return layer.weight.dim()


def fp8():
    layer = linear()
    kept = [layer.weight.to(torch.float8_e4m3fn)]
    peak()
    return len(kept)


def scaled_fp8():
    layer = linear()
    scale = layer.weight.abs().amax() / 448
    kept = (layer.weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    layer(batch())
    peak()
    return kept.dim()


def by_channels():
    """Layouts that convolutions want: all of a model's weights once more, then in place of the first."""
    layer = nn.Conv2d(512, 512, 1, bias=False, device="cuda").to(memory_format=torch.channels_last)
    peak()
    return layer.weight.dim()


UNTRAINED = [
    (autocast, 2 * MIB + 2 * HALF),
    (autocast_without_a_module, MIB + HALF),
    (kept_parametrization, 2 * MIB),
    (merged, MIB + 2 * 8 * 2048),
    (exchanged, MIB),
    (set_elsewhere, MIB),
    (exchanged_in_forward, HALF),
    (swapped, MIB),
    (cast_module, HALF),
    (fp8, MIB + MIB // 4),
    (scaled_fp8, MIB + MIB // 4),
    (by_channels, MIB),
]


@pytest.mark.parametrize(("body", "parameters"), UNTRAINED)
def test_what_is_kept_of_parameters_alone_is_parameters_where_nothing_trains(trace, body, parameters):
    assert trace(without_grad, body.__name__).has(parameters=parameters, frozen_parameters=0)


def without_grad(name):
    with torch.no_grad():
        globals()[name]()


# Copies beside the weights that train


class Updated:
    """An average as written by hand."""

    def __init__(self, model):
        self.shadow = {name: weight.data.clone() for name, weight in model.named_parameters()}

    def update(self, model):
        for name, weight in model.named_parameters():
            self.shadow[name].mul_(0.99).add_(weight.data, alpha=0.01)


AVERAGES = {
    "function": lambda model: [torch.clone(weight.detach()) for weight in model.parameters()],
    "function and detached": lambda model: [torch.clone(weight).detach() for weight in model.parameters()],
    "method": lambda model: [weight.detach().clone() for weight in model.parameters()],
    # diffusers' EMAModel
    "method and detached": lambda model: [weight.clone().detach() for weight in model.parameters()],
    "data": lambda model: [weight.data.clone() for weight in model.parameters()],
    "state dict": lambda model: [value.clone() for value in model.state_dict().values()],
    "deepcopy": copy.deepcopy,
    "averaged": torch.optim.swa_utils.AveragedModel,
    "stacked": lambda model: torch.stack([weight.detach() for weight in model.parameters()]),
    "foreach": lambda model: torch._foreach_mul([weight.detach() for weight in model.parameters()], 0.5),
    "empty": lambda model: [torch.empty_like(weight).copy_(weight.detach()) for weight in model.parameters()],
    "zeros": lambda model: [torch.zeros_like(weight).copy_(weight.detach()) for weight in model.parameters()],
    "updated": Updated,
}


def averaged(name, late=0):
    """``late``: the copy is made after the first step."""
    model = nn.Sequential(linear(), linear())
    optimizer, average = torch.optim.SGD(model.parameters()), None
    for step in range(3):
        if step == late:
            average = AVERAGES[name](model)
        model(batch()).sum().backward()
        optimizer.step()
        if isinstance(average, Updated):
            average.update(model)
        optimizer.zero_grad(set_to_none=False)
        peak()
    return average is not None


@pytest.mark.parametrize(("name", "late"), [*((name, 0) for name in AVERAGES), ("method", 1), ("updated", 1)])
def test_an_average_of_the_weights_is_frozen_parameters_however_it_is_made(trace, name, late):
    traced = trace(averaged, name, late)

    assert traced.has(parameters=2 * MIB, frozen_parameters=2 * MIB, gradients=2 * MIB, inputs=64 * MIB)


# What is not


class Positions(nn.Module):
    """Learned positions: 512 of 512, for 4 samples."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(512, 512, device="cuda"))


class Added(Positions):
    def forward(self, x):
        return (x + self.table.expand(4, -1, -1)).square()


class Repeated(Positions):
    def forward(self, x):
        return (self.table.repeat(4, 1, 1) * x).square()


class Looked(Positions):
    def forward(self, x):
        return nn.functional.embedding(torch.arange(512, device="cuda"), self.table).square() + x


class Filled(Positions):
    def forward(self, x):
        y = self.table.clone()
        y += x[0]
        return y.square()


def run(kind):
    loss = kind()(torch.zeros(4, 512, 512, device="cuda", requires_grad=True)).sum()
    peak()
    loss.backward()


@pytest.mark.parametrize(
    ("kind", "activations"),
    # what the square and the product keep, and the loss
    [("Added", 4 * MIB), ("Repeated", 8 * MIB), ("Looked", MIB), ("Filled", MIB)],
)
def test_what_depends_on_a_batch_is_activations(trace, kind, activations):
    traced = trace(run_named, kind)

    assert traced.has(parameters=MIB, frozen_parameters=0)
    assert activations <= traced.activations <= activations + 8192


def run_named(kind):
    run({"Added": Added, "Repeated": Repeated, "Looked": Looked, "Filled": Filled}[kind])


def cast_and_gone():
    """In each call a cast that nobody keeps."""
    with torch.no_grad():
        Written(torch.float16)(batch())


def quantised():
    """The peak is the quotient's, beside absolute values that nobody keeps."""
    layer = linear()
    torch.div(layer.weight.detach().abs(), 448)


def test_what_is_computed_of_parameters_on_the_way_is_temporaries(trace):
    assert trace(quantised).has(parameters=MIB, temporaries=2 * MIB, inputs=0)


def test_a_cast_that_an_operator_uses_up_is_a_temporary(trace):
    """At the peak, in the module, it is gone."""
    assert trace(cast_and_gone).has(parameters=MIB)


# On the host, by the same rules


def on_host(with_graph):
    model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(2)))  # of 4 MiB
    average = [torch.clone(weight.detach()) for weight in model.parameters()]
    x = torch.zeros(4, 1024, requires_grad=with_graph)
    with torch.set_grad_enabled(with_graph), torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).sum()
        torch.empty(64 * MIB, dtype=torch.uint8)
    if with_graph:
        loss.backward()
    return len(average)


@pytest.mark.parametrize("with_graph", [False, True])
def test_the_hosts_copies_are_what_the_cards_would_be(trace, with_graph):
    components = trace(on_host, with_graph).report.host.components

    casts, average = 2 * 2 * MIB, 2 * 4 * MIB
    assert components["parameters"] == 2 * 4 * MIB + casts + (0 if with_graph else average)
    assert components["frozen_parameters"] == (average if with_graph else 0)


# Measured: a device that follows no values, here on the stand-in's libraries


def components_of(name, *arguments):
    return measured(globals()[name], *arguments).components


@pytest.mark.parametrize(
    ("body", "of", "parameters", "frozen"),
    [
        *((body, layer, parameters, 0) for body, layer, parameters in TRAINED),
        *((averaged, name, 2 * MIB, 2 * MIB) for name in AVERAGES),
    ],
)
def test_a_measurement_tells_the_same(stand_in, body, of, parameters, frozen):
    components = stand_in(components_of, body.__name__, *filter(None, [of]), unlimited=True)

    assert (components["parameters"], components["frozen_parameters"]) == (parameters, frozen)
