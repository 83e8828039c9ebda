"""From ``mem_budget`` marks to a Budget."""

import json
from dataclasses import fields

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marker import read_budget
from pytest_membudget.components import COMPONENTS
from pytest_membudget.errors import UsageMistake

DEFAULTS = {"gpu": None, "metric": "allocated"}


def read(*marks, args=(), **defaults):
    """The budget of ``marks``, closest first, under ``DEFAULTS`` changed by ``defaults``."""
    return read_budget([(args, mark) for mark in marks], {**DEFAULTS, **defaults})


def refusal_of(error, *marks, args=(), **defaults):
    with pytest.raises(error) as refusal:
        read(*marks, args=args, **defaults)
    assert type(refusal.value) is error
    return str(refusal.value)


# What is taken


ALL = {
    "gib": 12.5,
    "gpus": 1,
    "gpu": "A100-40GB",
    "metric": "device",
    "components": {"activations": 8, "context": 0.5},
}
#: Marks, the closest first, what the settings say, and what the budget has.
TAKEN = {
    "gib alone": (
        [{"gib": 40}], {}, {"gib": 40, "gpus": 1, "gpu": None, "metric": "allocated", "components": {}}
    ),
    "every argument": ([ALL], {}, ALL),
    "a card of the settings for an empty mark": ([{}], {"gpu": "T4"}, {"gpu": "T4"}),
    "the closest mark": ([{"gib": 8}, {"gib": 16}, {"gib": 40}], {}, {"gib": 8}),
    "one by one from the closest mark that has it": (
        [{"gib": 8}, {"metric": "reserved", "gib": 16}, {"gpu": "T4", "metric": "device"}], {},
        {"gib": 8, "metric": "reserved", "gpu": "T4"},
    ),
    "components replace those further out": (
        [{"components": {"activations": 2}}, {"components": {"gradients": 1}}], {},
        {"components": {"activations": 2}},
    ),
    "None takes back what is further out": (
        [{"gib": None, "gpu": "T4"}, {"gib": 40}], {}, {"gib": None, "gpu": "T4"}
    ),
    "marks rule over the settings": (
        [{"gpu": "T4", "metric": "reserved"}], {"gpu": "H100-80GB", "metric": "device"},
        {"gpu": "T4", "metric": "reserved"},
    ),
    "settings hold where marks say nothing": (
        [{"gib": 4}], {"gpu": "H100-80GB", "metric": "device"}, {"gpu": "H100-80GB", "metric": "device"}
    ),
    "None leaves it to the settings": (
        [{"gib": 4, "metric": None}], {"metric": "reserved"}, {"metric": "reserved"}
    ),
    "the closest growth": (
        [{"gib": 1, "max_growth": "2%"}, {"max_growth": "3%"}], {"max_growth": "9%"}, {"max_growth": "2%"}
    ),
    "growth of the settings": ([{"gib": 1}], {"max_growth": "9%"}, {"max_growth": "9%"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_arguments_of_marks_and_settings_are_taken(name):
    marks, settings, expected = TAKEN[name]
    budget = read(*marks, **settings)

    assert {key: getattr(budget, key) for key in expected} == expected


# Marks that cannot be used


@pytest.mark.parametrize(("args", "written"), [((40,), "mem_budget(40)"), (("T4", 2), "mem_budget('T4', 2)")])
def test_a_positional_argument_is_refused_with_a_form_that_is_taken(args, written):
    text = refusal_of(UsageMistake, {}, args=args)
    assert text == f"{written}: arguments go by name; write mem_budget(gib=40)"
    assert read({"gib": 40})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gb", "did you mean gib?"),
        ("gpu_s", "did you mean gpus?"),
        ("max_grow", "did you mean max_growth?"),
        ("component", "did you mean components?"),
        ("vram", "the arguments are gib, gpus, gpu, host_gib, held_gib, metric, components, max_growth"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest_name_or_with_all(name, said):
    text = refusal_of(UsageMistake, {name: 40})
    assert text == f"mem_budget({name}=40): there is no argument {name}; {said}"


#: Values of an argument, and what is said of each.
SIZE = "write a finite number of GiB above 0, as in {}=40"
NO_SIZES = ["40", True, [40], {"activations": 4}, 4 + 0j, 0, -1, 0.0, *map(float, ("inf", "-inf", "nan"))]
METRICS = "'allocated', 'reserved', 'device'"
REFUSED = [
    ("gib", NO_SIZES, SIZE.format("gib")),
    ("host_gib", NO_SIZES, SIZE.format("host_gib")),
    ("gpus", ["2", 1.0, True, [0, 1], 0, -2, 65_537], "write a whole number from 1 to 65536, as in gpus=1"),
    ("gpu", [80, True, "", "  ", ["T4"]], "write the name of a card, as in 'H100-80GB'"),
    ("metric", ["Alocated"], f"write 'allocated'; the values are {METRICS}"),
    ("metric", ["peak", "active", "", 1, ["x"]], f"write one of {METRICS}"),
    (
        "components",
        [12, "activations", ["activations"], {}, [("activations", 12)]],
        "write a table, as in components={'parameters': 40}",
    ),
]


@pytest.mark.parametrize(
    ("name", "value", "said"), [(name, value, said) for name, values, said in REFUSED for value in values]
)
def test_a_value_that_cannot_be_used_is_refused_with_what_to_write(name, value, said):
    text = refusal_of(UsageMistake, {**({} if name in ("gpu", "components") else {"gib": 1}), name: value})
    assert text == f"mem_budget({name}={value!r}): {said}"


def test_a_card_that_is_not_in_the_catalogue_is_refused_with_the_nearest():
    text = refusal_of(UsageMistake, {"gpu": "RTX-409O"})
    assert text.startswith("mem_budget(gpu='RTX-409O'): ")
    assert "Did you mean 'RTX-4090'?" in text


ALL_COMPONENTS = f"the components are {', '.join(COMPONENTS)}"


@pytest.mark.parametrize(
    ("component", "said"),
    [("activation", "did you mean activations?"), ("kv", ALL_COMPONENTS), (7, ALL_COMPONENTS)],
)
def test_an_unknown_component_is_refused_with_the_nearest_or_with_all(component, said):
    written = {component: 12}
    text = refusal_of(UsageMistake, {"components": written})
    assert (
        text == f"mem_budget(components={written}): there is no component {component} in components; {said}"
    )


@pytest.mark.parametrize(
    ("component", "metric", "remedy"),
    [
        ("cached", "allocated", "reserved"),
        ("context", "allocated", "device"),
        ("context", "reserved", "device"),
        ("nccl", "reserved", "device"),
    ],
)
def test_a_component_that_the_metric_leaves_out_is_refused(component, metric, remedy):
    components = {component: 1}
    text = refusal_of(UsageMistake, {"components": components, "metric": metric})
    assert text == (
        f"mem_budget(components={components!r}): {component} is no part of {metric} memory, so its budget "
        f"would check nothing; write metric={remedy!r}, or leave {component} out"
    )


@pytest.mark.parametrize("value", [2, 0.02, "2", "2 MB", "2% + 3%", "-1%"])
def test_growth_that_cannot_be_read_is_refused_with_examples(value):
    text = refusal_of(UsageMistake, {"gib": 1, "max_growth": value})
    assert text.startswith(f"mem_budget(max_growth={value!r}): ")
    assert "'2%', '256 MiB' or '2% + 64 MiB'" in text


def test_a_budget_of_host_memory_alone_is_not_of_the_card():
    assert read({}).is_of_card
    assert read({"host_gib": 1, "components": {"activations": 1}}).is_of_card
    assert read({"host_gib": 1, "held_gib": 1}).is_of_card
    assert not read({"host_gib": 1}).is_of_card


# Budget


def test_a_budget_is_written_to_json_by_the_names_of_its_arguments():
    budget = read({"gib": 40, "gpu": "T4", "components": {"activations": 12}})
    expected = {
        "gib": 40,
        "gpus": 1,
        "gpu": "T4",
        "host_gib": None,
        "held_gib": None,
        "metric": "allocated",
        "components": {"activations": 12},
        "max_growth": None,
    }
    assert json.dumps(budget.to_json()) == json.dumps(expected)  # in this order
    assert budget.to_json().keys() == {field.name for field in fields(Budget)}
