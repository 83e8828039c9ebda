"""Closed forms of optimizers' states and steps against torch's own optimizers on the stand-in.

Bytes are what is asked for, before rounding: sizes are odd, so that a wrong list or a forgotten copy shows.
"""

from dataclasses import replace

import pytest

from pytest_membudget.formulas import states
from pytest_membudget.formulas.job import Job, Optimizer, Precision
from pytest_membudget.formulas.local_tensors import LocalTensor
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Stack
from pytest_membudget.formulas.terms import total_bytes

#: Parameters in their order: matrices and vectors of odd sizes, the largest neither first nor last.
SHAPES = ((301, 203), (203,), (1009, 401), (7, 5, 3), (401,), (513, 129), (129,))


def job(optimizer, **fields):
    layer = Layer(Attention(heads=1, kv_heads=1, head_dim=8), FeedForward(intermediate=8))
    model = Model("none", "LlamaForCausalLM", vocab=8, decoder=Stack(((layer, 1),), hidden=8))
    return Job(model, optimizer=optimizer, **fields)


def tensors(shapes, kinds):
    return [
        LocalTensor(f"p{number}", tuple(shape), "feed_forward", kind)
        for number, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
    ]


def stepped(shapes, kinds, make, steps, clips=False, in_backward=False):
    """Parameters with gradients, ``steps`` steps of an optimizer: runs on the stand-in."""
    import torch

    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    parameters = [
        torch.nn.Parameter(torch.zeros(shape, dtype=types[kind], device="cuda"))
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    lists = [[one] for one in parameters] if in_backward else [parameters]
    optimizers = [optimizer_of(make, some) for some in lists]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(steps):
        if clips:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for optimizer in optimizers:
            optimizer.step()
    kept = [value for each in optimizers for state in each.state.values() for value in state.values()]
    kept = [value for value in kept if isinstance(value, torch.Tensor)]
    on_card = [value.nbytes for value in kept if value.is_cuda]
    return sum(on_card), sum(value.nbytes for value in kept if not value.is_cuda), len(on_card)


def optimizer_of(make, parameters):
    import torch

    name, arguments = make
    if name == "transformers.Adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters, **arguments)
    return getattr(torch.optim, name)(parameters, **arguments)


def check(trace, optimizer, make, *, shapes=SHAPES, kinds=None, steps=2, **options):
    kinds = kinds or ["fp32"] * len(shapes)
    asked = job(replace(optimizer, clips_gradients=options.get("clips", False)))
    if options.get("in_backward"):
        asked = replace(asked, optimizer=replace(asked.optimizer, in_backward=True))
    some = tensors(shapes, kinds)

    traced = trace(stepped, shapes, kinds, make, steps, *options.values())

    on_card, on_host, _ = traced.value
    assert total_bytes(states.state_terms(some, asked)) == on_card == traced.optimizer_states
    assert total_bytes(states.host_terms(some, asked)) == on_host
    assert total_bytes(states.parameter_terms(some, asked)) == traced.parameters
    assert total_bytes(states.gradient_terms(some, asked)) == traced.gradients
    return total_bytes(states.step_temporaries(some, asked)), traced


def same(trace, optimizer, make, **options):
    estimate, traced = check(trace, optimizer, make, **options)
    assert estimate == traced.temporaries


FOREACH = [
    (Optimizer("adamw"), ("AdamW", {})),
    (Optimizer("adamw", amsgrad=True), ("AdamW", {"amsgrad": True})),
    (Optimizer("adam"), ("Adam", {})),
    (Optimizer("adam", has_l2=True), ("Adam", {"weight_decay": 0.1})),
    (Optimizer("nadam"), ("NAdam", {})),
    (Optimizer("nadam", has_l2=True), ("NAdam", {"weight_decay": 0.1})),
    (Optimizer("radam"), ("RAdam", {})),
    (Optimizer("radam", has_l2=True), ("RAdam", {"weight_decay": 0.1})),
    (Optimizer("adamax"), ("Adamax", {})),
    (Optimizer("adamax", has_l2=True), ("Adamax", {"weight_decay": 0.1})),
    (Optimizer("adadelta"), ("Adadelta", {})),
    (Optimizer("adadelta", has_l2=True), ("Adadelta", {"weight_decay": 0.1})),
    (Optimizer("sgd"), ("SGD", {})),
    (Optimizer("sgd", has_l2=True), ("SGD", {"weight_decay": 0.1})),
    (Optimizer("sgd", momentum=True), ("SGD", {"momentum": 0.9})),
    (Optimizer("sgd", momentum=True, has_l2=True), ("SGD", {"momentum": 0.9, "weight_decay": 0.1})),
    (Optimizer("sgd", momentum=True, nesterov=True), ("SGD", {"momentum": 0.9, "nesterov": True})),
    (
        Optimizer("sgd", momentum=True, nesterov=True, has_l2=True),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ),
    (Optimizer("adagrad"), ("Adagrad", {})),
    (Optimizer("adagrad", has_l2=True), ("Adagrad", {"weight_decay": 0.1})),
    (Optimizer("rmsprop"), ("RMSprop", {})),
    (Optimizer("rmsprop", centered=True, momentum=True), ("RMSprop", {"centered": True, "momentum": 0.9})),
    (Optimizer("rmsprop", has_l2=True), ("RMSprop", {"weight_decay": 0.1})),
    (Optimizer("asgd"), ("ASGD", {})),
    (Optimizer("rprop"), ("Rprop", {})),
]


def named(case):
    name, arguments = case[1]
    return "-".join([name, *arguments])


@pytest.mark.parametrize("case", FOREACH, ids=named)
def test_a_step_over_lists(trace, case):
    same(trace, *case)


@pytest.mark.parametrize("case", FOREACH, ids=named)
def test_a_step_in_a_loop(trace, case):
    optimizer, (name, arguments) = case
    steps = 8 if name == "RAdam" else 2  # it rectifies from the sixth on
    make = (name, {**arguments, "foreach": False})

    same(trace, replace(optimizer, implementation="loop"), make, steps=steps)


@pytest.mark.parametrize("case", FOREACH, ids=named)
def test_a_step_over_lists_of_two_number_types(trace, case):
    kinds = ["bf16", "fp32"] * (len(SHAPES) // 2) + ["bf16"]

    same(trace, *case, kinds=kinds)


@pytest.mark.parametrize("name", ["AdamW", "Adam"])
def test_a_fused_step_makes_nothing(trace, name):
    optimizer = Optimizer(name.lower(), implementation="fused")

    same(trace, optimizer, (name, {"fused": True}))


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_torchs_adafactor_over_lists(trace, kind):
    optimizer = Optimizer("adafactor", implementation="foreach")

    same(trace, optimizer, ("Adafactor", {"foreach": True}), kinds=[kind] * len(SHAPES))


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_torchs_adafactor(trace, kind):
    """A norm's kernel has two small buffers, which no formula here has: with them another moment can win."""
    estimate, traced = check(trace, Optimizer("adafactor"), ("Adafactor", {}), kinds=[kind] * len(SHAPES))

    assert 0 <= estimate - traced.temporaries <= 2 * 512


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
@pytest.mark.parametrize("beta1", [None, 0.9])
def test_transformers_adafactor(trace, kind, beta1):
    optimizer = Optimizer("adafactor", library="transformers", has_first_moment=beta1 is not None)

    same(trace, optimizer, ("transformers.Adafactor", {"beta1": beta1}), kinds=[kind] * len(SHAPES))


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon(trace, kind, nesterov):
    shapes = [shape for shape in SHAPES if len(shape) == 2]
    optimizer = Optimizer("muon", nesterov=nesterov)

    same(trace, optimizer, ("Muon", {"nesterov": nesterov}), shapes=shapes, kinds=[kind] * len(shapes))


def test_clipping_before_a_fused_step(trace):
    optimizer = Optimizer("adamw", implementation="fused")

    estimate, traced = check(trace, optimizer, ("AdamW", {"fused": True}), clips=True)

    assert estimate == traced.allocated - traced.rounding - traced.parameters * 4 - 4 * len(SHAPES)


def test_a_step_in_backward_is_its_largest_parameters(trace):
    same(trace, Optimizer("adamw"), ("AdamW", {}), clips=False, in_backward=True)


#: A layer's parameters, with three experts of two matrices each among them.
LAYER = [((40, 64), 1), ((64, 40), 1), ((80, 64), 3), ((64, 72), 3), ((64,), 1)]


@pytest.mark.parametrize("name", ["AdamW", "Rprop"])
def test_a_loop_over_kinds_is_a_loop_over_every_parameter(trace, name):
    """Of two layers. The most is there where an expert's first matrix comes after another expert's last."""
    of_layer = [shape for shape, _ in LAYER]
    every = [(60, 64), *2 * (*of_layer[:2], *3 * of_layer[2:4], of_layer[4]), (64, 80)]
    kinds = [tensor_of("embedding", (60, 64), 1)]
    kinds += [tensor_of("layers", shape, 2 * count) for shape, count in LAYER]
    kinds += [tensor_of("head", (64, 80), 1)]
    asked = job(Optimizer(name.lower(), implementation="loop"))

    traced = trace(stepped, every, ["fp32"] * len(every), (name, {"foreach": False}), 2)

    assert total_bytes(states.step_temporaries(kinds, asked)) == traced.temporaries
    assert total_bytes(states.state_terms(kinds, asked)) == traced.optimizer_states


def tensor_of(layer, shape, count):
    return LocalTensor(f"{layer} {shape}", shape, "feed_forward", "fp32", count, layer=layer)


def test_gradients_of_megatrons_policy_are_fp32():
    asked = job(Optimizer(), precision=Precision("megatron"))

    terms = states.gradient_terms(tensors([(10, 10)], ["bf16"]), asked)

    assert total_bytes(terms) == 400
