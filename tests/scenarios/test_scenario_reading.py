"""A scenario file's budgets: defaults under them, names, and what is refused at once."""

import pytest

from pytest_membudget.errors import UsageMistake


def refusal_of(folder, text):
    with pytest.raises(UsageMistake) as refusal:
        folder.entries(text)
    return str(refusal.value)


def plain(entry):
    return {name: node.plain for name, node in entry.fields.items()}


def test_budgets_have_their_names_lines_and_fields(folder):
    first, second = folder.entries(
        """
        budgets:
          - name: a
            gib: 1
          - {name: b, gib: 2}
        """
    )

    assert (first.name, first.node.line, plain(first)) == ("a", 2, {"name": "a", "gib": 1})
    assert (second.name, second.node.line, plain(second)) == ("b", 4, {"name": "b", "gib": 2})


def test_defaults_are_put_under_every_budget_table_by_table(folder):
    first, second, third, fourth = folder.entries(
        """
        defaults:
          gpu: T4
          optimizer: {name: sgd, momentum: true}
          precision: fp32
          components: {gradients: 1}
        budgets:
          - name: a
          - {name: b, gpu: L4, optimizer: {momentum: false}, components: {activations: 2}}
          - {name: c, optimizer: adamw, precision: {compute: bf16}}
          - {name: d, gpu: null, optimizer: {momentum: null}}
        """
    )

    below = {"gpu": "T4", "optimizer": {"name": "sgd", "momentum": True}, "precision": "fp32"}
    assert plain(first) == {"name": "a", **below, "components": {"gradients": 1}}
    assert plain(second)["gpu"] == "L4"
    assert plain(second)["optimizer"] == {"name": "sgd", "momentum": False}
    assert plain(second)["components"] == {"activations": 2}  # no table of described fields: written anew
    assert plain(third)["optimizer"] == "adamw"  # all of it, written anew
    assert plain(third)["precision"] == {"parameters": "fp32", "compute": "bf16"}  # fp32 is its short form
    assert plain(fourth)["optimizer"] == {"name": "sgd"}
    assert "gpu" not in plain(fourth)


def test_a_model_is_never_mixed_with_that_of_the_defaults(folder):
    (entry,) = folder.entries(
        """
        defaults: {model: {config: a.json}}
        budgets: [{name: a, model: {torchtitan: 8B}}]
        """
    )

    assert plain(entry)["model"] == {"torchtitan": "8B"}


def test_a_default_keeps_its_own_line(folder):
    (entry,) = folder.entries("defaults:\n  gpu: T4\nbudgets:\n  - name: a\n")

    assert entry.fields["gpu"].line == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "f.membudget.yaml: there are no budgets in it; write a list, as in budgets: [{"),
        ("defaults: {gpu: T4}\n", "f.membudget.yaml: there are no budgets in it"),
        ("budgets: []\n", "f.membudget.yaml:1: budgets: []: write a list"),
        ("budgets: {a: 1}\n", "f.membudget.yaml:1: budgets: {a: 1}: write a list"),
        ("- a\n", "f.membudget.yaml:1: [a]: write a table with budgets: and defaults:"),
        ("3\n", "f.membudget.yaml:1: 3: write a table"),
        ("budgets: [\n", "f.membudget.yaml:2: this is no YAML"),
        (
            "budget:\n  - name: a\n",
            "f.membudget.yaml:1: there is no key budget here; did you mean budgets?",
        ),
        (
            "budgets: [{name: a}]\ngpu: T4\n",
            "f.membudget.yaml:2: there is no key gpu here; it belongs into one of budgets:, or defaults:",
        ),
        ("x: 1\n", "f.membudget.yaml:1: there is no key x here; the keys are budgets, defaults"),
        ("defaults: T4\nbudgets: [{name: a}]\n", "f.membudget.yaml:1: defaults: T4: write a table of fields"),
        (
            "defaults:\n  gpus: 1\n  gpuu: T4\n  name: a\nbudgets: [{name: a}]\n",
            "f.membudget.yaml:3: gpuu: T4: there is no field gpuu; did you mean gpu?\n"
            "f.membudget.yaml:4: name cannot have a default: each budget has its own",
        ),
    ],
)
def test_what_is_no_file_of_budgets_is_refused_with_file_and_line(folder, text, told):
    assert refusal_of(folder, text).startswith(told)


def test_a_name_that_is_taken_is_that_budgets_own_mistake(folder):
    first, second = folder.entries("budgets:\n  - name: a\n  - name: a\n")

    assert (first.name, first.mistakes) == ("a", ())
    assert second.name == "a#2"
    assert second.mistakes == ("f.membudget.yaml:3: name: a is taken at f.membudget.yaml:2; write another",)


def test_a_budget_without_a_name_has_the_number_of_its_place(folder):
    first, second, third = folder.entries("budgets:\n  - gib: 1\n  - x\n  - name: 3\n")

    assert [first.name, second.name, third.name] == ["budget#1", "budget#2", "budget#3"]
    remedy = "write a table with name, model or script, and gib or gpu"
    assert second.mistakes == (f"f.membudget.yaml:3: x: {remedy}",)


@pytest.mark.parametrize("name", ["a::b", "a[1]"])
def test_a_name_that_would_be_read_as_a_path_is_refused(folder, name):
    (entry,) = folder.entries(f"budgets:\n  - name: '{name}'\n")

    assert "write it without" in entry.mistakes[0]
