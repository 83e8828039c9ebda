"""States and steps of torch's own optimizers on the stand-in, by hand, and the arithmetic's table of them.

Bytes are what is asked for, before rounding: sizes are odd, so that a wrong list or a forgotten copy shows.
"""

import json
import math

import pytest
import torch

from pytest_membudget.formulas.model_states import states_of
from pytest_membudget.formulas.ranks import Rank
from pytest_membudget.formulas.sources import decoder_of
from pytest_membudget.scenarios.job import Job, Model, Optimizer, Precision

#: Parameters in their order: matrices and vectors of odd sizes, the largest neither first nor last.
SHAPES = ((301, 203), (203,), (1009, 401), (401,), (513, 129), (129,))
MATRICES = [shape for shape in SHAPES if len(shape) == 2]
NUMBERS = sum(map(math.prod, SHAPES))
LARGEST = 1009 * 401
#: A step's count, a number of 4 bytes a parameter, is on the card where a fused kernel or a capture reads it.
COUNTS = 4 * len(SHAPES)
FP32 = 4


def stepped(shapes, make, steps=2, in_backward=False):
    """Parameters with gradients, ``steps`` steps of an optimizer: runs on the stand-in."""
    parameters = [torch.nn.Parameter(torch.zeros(shape, device="cuda")) for shape in shapes]
    name, arguments = make
    lists = [[one] for one in parameters] if in_backward else [parameters]
    optimizers = [getattr(torch.optim, name)(some, **arguments) for some in lists]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.step()


def moments(count):
    return count * NUMBERS * FP32


FACTORED = sum(FP32 * (sum(shape) if len(shape) == 2 else shape[0]) for shape in SHAPES)
MUON = sum(FP32 * math.prod(shape) for shape in MATRICES)
#: Optimizer and arguments, bytes of its states on the card, of the step's temporaries where they are simple.
CASES = [
    ("AdamW", {}, moments(2), moments(1)),
    ("Adam", {"foreach": False}, moments(2), None),
    ("AdamW", {"foreach": False}, moments(2), None),
    ("AdamW", {"fused": True}, moments(2) + COUNTS, 0),
    ("AdamW", {"capturable": True}, moments(2) + COUNTS, None),
    ("AdamW", {"amsgrad": True}, moments(3), moments(1)),
    ("NAdam", {"foreach": False}, moments(2), None),
    ("SGD", {}, 0, 0),
    ("SGD", {"momentum": 0.9}, moments(1), None),
    ("SGD", {"momentum": 0.9, "foreach": False}, moments(1), None),
    ("SGD", {"momentum": 0.9, "fused": True}, moments(1), None),
    ("ASGD", {}, moments(1) + 3 * COUNTS, None),  # three numbers a parameter next to the average
    ("Rprop", {}, moments(2), None),
    ("Adagrad", {}, moments(1), None),
    ("RMSprop", {}, moments(1), None),
    ("RMSprop", {"momentum": 0.9}, moments(2), None),
    ("RMSprop", {"centered": True}, moments(2), None),
    ("Adadelta", {}, moments(2), None),
    ("Adamax", {}, moments(2), None),
    ("Adafactor", {}, FACTORED, None),
    ("Muon", {}, MUON, None),
]


@pytest.mark.parametrize("steps", [1, 2])  # states are states in the step that makes them, too
@pytest.mark.parametrize(("name", "arguments", "states", "temporaries"), CASES)
def test_a_step(trace, name, arguments, states, temporaries, steps):
    shapes = MATRICES if name == "Muon" else SHAPES

    traced = trace(stepped, shapes, (name, arguments), steps)

    assert traced.optimizer_states == states
    assert traced.parameters == traced.gradients == FP32 * sum(map(math.prod, shapes))
    if temporaries is not None:
        assert traced.temporaries == temporaries


def test_a_loop_and_a_step_in_backward_have_one_parameters_temporaries(trace):
    one_by_one = trace(stepped, SHAPES, ("AdamW", {}), 2, True)
    loop = trace(stepped, SHAPES, ("AdamW", {"foreach": False}))

    assert one_by_one.temporaries == FP32 * LARGEST
    # its square roots and their quotient, beside the quotient of the parameter before
    assert loop.temporaries == FP32 * (2 * LARGEST + 203)


#: Without arguments that no scenario has, and without ASGD, whose three numbers a parameter are left out.
IN_SCENARIOS = [
    (name, arguments)
    for name, arguments, *_ in CASES
    if arguments.keys() <= {"momentum", "foreach"} and name != "ASGD"
]


@pytest.mark.parametrize(("name", "arguments"), IN_SCENARIOS)
def test_the_arithmetic_has_as_many_moments(trace, name, arguments):
    """A decoder whose parameters are a matrix of the layer's and the embedding: two of one shape."""
    shape = {
        "hidden": 64,
        "layers": 1,
        "heads": 1,
        "intermediate": 64,
        "vocab": 64,
        "norm": "layer_without_weight",
    }
    ours = Optimizer(name.lower(), momentum="momentum" in arguments)
    job = Job(
        Model("shape", "m", json.dumps(shape)),
        "formulas",
        optimizer=ours,
        precision=Precision("pure", "fp32"),
    )
    found = states_of(Rank(job, decoder_of(job.model), 0))
    matrices = 9 if name != "Muon" else 7  # AdamW's are the embedding's and the head's

    traced = trace(stepped, ((64, 64),) * matrices, (name, arguments))

    of_adamw = 2 * 2 * 64 * 64 * FP32 if name == "Muon" else 0
    assert found.optimizer == traced.optimizer_states + of_adamw
