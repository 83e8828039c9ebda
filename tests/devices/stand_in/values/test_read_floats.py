"""A size made of an unknown floating-point number is listed as one, whatever arithmetic is between."""

import copy
import json
import math
import pickle

import pytest
import torch

import pytest_membudget
from pytest_membudget.devices.stand_in.values.read_floats import ReadFloat

MAKINGS = {
    "int": lambda x: int(x.item() * 2**10),
    "round": lambda x: round(2**10 * x.item() + 0.0),
    "rounded": lambda x: int(round(x.item(), 4) * 2**10),
    "floor": lambda x: math.floor(2**11 / (x.item() + 1)),
    "ceil": lambda x: math.ceil(2**10 - -x.item() + 0 - x.item()),
    "floor division": lambda x: int(2**10 * x.item() // 1),
    "int of the tensor": lambda x: int(x * 2**10) + 2**10 - 1,
    "the largest": lambda x: int(max(x.item(), 0.5) ** 2 * 2**10),
}


def sized(how):
    unknown = torch.empty(3, device="cuda").exp().sum()
    return torch.empty(MAKINGS[how](unknown), device="cuda").numel()


@pytest.mark.parametrize("how", MAKINGS)
def test_a_whole_number_made_of_an_unknown_float_is_not_checked(trace, how):
    traced = trace(sized, how)

    assert traced.value == 2**10  # the plausible value is 1
    [size] = [one for one in traced.report.caveats if one.kind == "unchecked"]
    assert size.cause.name == "size-read"
    assert "reads a float32 value as a whole number (once): taken to be " in size.text
    assert size.text.startswith("test_read_floats.py:")


def logged():
    loss = torch.empty(3, device="cuda").mean()
    history = []
    for step in range(3):
        history.append(loss.item())
        text = f"{loss.item():.3f} {loss.item():5.2f} %.1f" % loss.item()
        is_best = loss.item() < min(history) or math.isnan(loss.item())
        text += json.dumps({"loss": round(sum(history) / (step + 1), 4), "best": is_best})
        torch.full((2,), loss.item(), device="cuda").mul_(loss.item()).add_(
            torch.tensor(loss.item(), device="cuda")
        )
    return text


def test_a_loss_that_is_logged_is_checked(trace):
    traced = trace(logged)

    assert traced.value == '1.000  1.00 1.0{"loss": 1.0, "best": false}'
    assert {one.kind for one in traced.report.caveats} == {"assumed"}


def answered():
    unknown, known = torch.empty(3, device="cuda").sum(), torch.tensor(4.5, device="cuda")
    with pytest_membudget.assume(value=8.0):
        count = int(unknown.item())
    return count, int(known.item()), type(known.item()).__name__


def test_a_number_that_is_given_or_known_is_checked(trace):
    traced = trace(answered)

    assert traced.value == [8, 4, "float"]
    assert not [one for one in traced.report.caveats if one.kind == "unchecked"]


def compiled():
    model = torch.nn.Linear(8, 8, device="cuda")
    torch.compile(model, backend="eager", fullgraph=True)(torch.randn(2, 8, device="cuda"))
    return torch.compile(lambda x: x * model(x).sum().item(), backend="eager")(
        torch.randn(2, 8, device="cuda")
    ).shape


def test_compiled_code_reads_as_ever(trace):
    assert trace(compiled).value == [2, 8]


def test_it_is_a_float_to_everybody_else():
    numbers = []
    number = ReadFloat(2.5, numbers.append)

    assert isinstance(number, float)
    assert (number, hash(number)) == (2.5, hash(2.5))
    assert type(pickle.loads(pickle.dumps(number))) is type(copy.copy(number)) is float
    assert (1 - number, number % 2, -number, divmod(7, number)) == (-1.5, 0.5, -2.5, (2.0, 2.0))
    assert json.dumps([number, number * 2]) == "[2.5, 5.0]"
    assert not numbers
