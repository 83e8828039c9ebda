"""Closed forms of optimizers' states and steps against torch's own optimizers on the stand-in.

Bytes are what is asked for, before rounding: sizes are odd, so that a wrong list or a forgotten copy shows.
"""

import itertools
from dataclasses import replace

import pytest
import torch

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


def stepped(shapes, kinds, make, steps=2, clips=False, in_backward=False):
    """Parameters with gradients, ``steps`` steps of an optimizer: runs on the stand-in."""
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    parameters = [
        torch.nn.Parameter(torch.zeros(shape, dtype=types[kind], device="cuda"))
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    lists = [[one] for one in parameters] if in_backward else [parameters]
    optimizers = [optimizer_of(*make, some) for some in lists]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(steps):
        if clips:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for optimizer in optimizers:
            optimizer.step()
    kept = [value for each in optimizers for state in each.state.values() for value in state.values()]
    kept = [value for value in kept if isinstance(value, torch.Tensor)]
    return [sum(value.nbytes for value in kept if value.is_cuda == on_card) for on_card in (True, False)]


def optimizer_of(name, arguments, parameters):
    if name == "transformers.Adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters, **arguments)
    return getattr(torch.optim, name)(parameters, **arguments)


FP32, BF16, MIXED = ["fp32"] * 7, ["bf16"] * 7, [*3 * ["bf16", "fp32"], "bf16"]
NAMES = [
    "AdamW",
    "Adam",
    "NAdam",
    "RAdam",
    "Adamax",
    "Adadelta",
    "SGD",
    "Adagrad",
    "RMSprop",
    "ASGD",
    "Rprop",
]


def of_torch():
    """Optimizers with and without what changes what they take: name, arguments, fields of ours."""
    for name in NAMES:
        yield name, {}, {}
        if name not in ("AdamW", "ASGD", "Rprop"):
            yield name, {"weight_decay": 0.1}, {"has_l2": True}
    yield "AdamW", {"amsgrad": True}, {"amsgrad": True}
    yield "RMSprop", {"centered": True, "momentum": 0.9}, {"centered": True, "momentum": True}
    for nesterov, decay in itertools.product((False, True), (0, 0.1)):
        arguments = {"momentum": 0.9, "nesterov": nesterov, "weight_decay": decay}
        yield "SGD", arguments, {"momentum": True, "nesterov": nesterov, "has_l2": decay > 0}


def cases():
    """An optimizer of ours, torch's, the parameters' number types, and options of a run."""
    for name, arguments, fields in of_torch():
        ours, in_a_loop = Optimizer(name.lower(), **fields), {**arguments, "foreach": False}
        yield ours, (name, arguments), FP32, ()
        yield ours, (name, arguments), MIXED, ()
        # RAdam rectifies from the sixth step on
        steps = (8 if name == "RAdam" else 2,)
        yield replace(ours, implementation="loop"), (name, in_a_loop), FP32, steps
    for name in ("AdamW", "Adam"):
        yield Optimizer(name.lower(), implementation="fused"), (name, {"fused": True}), FP32, ()
    yield Optimizer("adamw", in_backward=True), ("AdamW", {}), FP32, (2, False, True)
    for kinds in (FP32, BF16):
        yield Optimizer("adafactor", implementation="foreach"), ("Adafactor", {"foreach": True}), kinds, ()
        yield Optimizer("adafactor"), ("Adafactor", {}), kinds, ()
        for beta1 in (None, 0.9):
            ours = Optimizer("adafactor", library="transformers", has_first_moment=beta1 is not None)
            yield ours, ("transformers.Adafactor", {"beta1": beta1}), kinds, ()
        for nesterov in (True, False):
            yield Optimizer("muon", nesterov=nesterov), ("Muon", {"nesterov": nesterov}), kinds, ()


def named(case):
    return "-".join(map(str, itertools.chain([case[1][0]], *case[1][1].items(), case[2][:2], case[3])))


@pytest.mark.parametrize("case", list(cases()), ids=named)
def test_a_step(trace, case):
    optimizer, make, kinds, options = case
    shapes = [shape for shape in SHAPES if len(shape) == 2 or make[0] != "Muon"]
    asked, some = job(optimizer), tensors(shapes, kinds[: len(shapes)])

    traced = trace(stepped, shapes, kinds[: len(shapes)], make, *options)

    on_card, on_host = traced.value
    assert total_bytes(states.state_terms(some, asked)) == on_card == traced.optimizer_states
    assert total_bytes(states.host_terms(some, asked)) == on_host
    assert total_bytes(states.parameter_terms(some, asked)) == traced.parameters
    assert total_bytes(states.gradient_terms(some, asked)) == traced.gradients
    # one by one torch's Adafactor has a norm's two small buffers, which no formula here has: with them
    # another moment can win
    more = 2 * 512 if make == ("Adafactor", {}) else 0
    assert 0 <= total_bytes(states.step_temporaries(some, asked)) - traced.temporaries <= more


def test_clipping_before_a_fused_step(trace):
    asked = job(Optimizer("adamw", implementation="fused", clips_gradients=True))

    traced = trace(stepped, SHAPES, FP32, ("AdamW", {"fused": True}), 2, True)

    taken = traced.requested - traced.parameters * 4 - 4 * len(SHAPES)
    assert total_bytes(states.step_temporaries(tensors(SHAPES, FP32), asked)) == taken


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

    traced = trace(stepped, every, ["fp32"] * len(every), (name, {"foreach": False}))

    assert total_bytes(states.step_temporaries(kinds, asked)) == traced.temporaries
    assert total_bytes(states.state_terms(kinds, asked)) == traced.optimizer_states


def tensor_of(layer, shape, count):
    return LocalTensor(f"{layer} {shape}", shape, "feed_forward", "fp32", count, layer=layer)


def test_gradients_of_megatrons_policy_are_fp32():
    asked = job(Optimizer(), precision=Precision("megatron"))

    terms = states.gradient_terms(tensors([(10, 10)], ["bf16"]), asked)

    assert total_bytes(terms) == 400
