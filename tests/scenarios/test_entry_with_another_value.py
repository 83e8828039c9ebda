"""What ``membudget fit`` makes of an entry: its field or argument, and the card as its budget."""

import pytest

from pytest_membudget.scenarios.grid import with_value
from pytest_membudget.scenarios.reading import read_entries

FILE = """
budgets:
  - {name: job, gib: 40, micro_batch: 1, model: {config: {model_type: llama, num_hidden_layers: 2}}}
  - {name: program, gib: 1, gpus: 2, script: train.py --batch=4 --steps 2}
"""


@pytest.fixture
def varied(tmp_path):
    """``varied(name, path, value)``: the fields of the entry as plain values, and its mistakes."""
    path = tmp_path / "a.membudget.yaml"
    path.write_text(FILE)
    entries = {entry.name: entry for entry in read_entries(path, "a.membudget.yaml")}

    def run(name, what, value):
        entry = with_value(entries[name], what, value, "RTX-4090")
        return {key: node.plain for key, node in entry.fields.items()}, entry.mistakes

    return run


def test_a_field_has_the_value_and_the_budget_is_the_cards(varied):
    fields, mistakes = varied("job", "micro_batch", 16)

    assert not mistakes
    assert (fields["micro_batch"], fields["gpu"]) == (16, "RTX-4090")
    assert "gib" not in fields


def test_a_key_of_a_table_has_the_value(varied):
    fields, _ = varied("job", "model.config.num_hidden_layers", 16)

    assert fields["model"]["config"] == {"model_type": "llama", "num_hidden_layers": 16}


@pytest.mark.parametrize(
    ("argument", "script"),
    [("--batch", "train.py --batch=16 --steps 2"), ("--steps", "train.py --batch=4 --steps 16")],
)
def test_an_argument_has_the_value(varied, argument, script):
    fields, mistakes = varied("program", argument, 16)

    assert not mistakes
    assert (fields["script"], fields["gpus"]) == (script, 2)


@pytest.mark.parametrize(
    ("entry", "name", "mistake"),
    [
        ("job", "micro_batsh", "there is no field micro_batsh; did you mean micro_batch?"),
        ("job", "name", "name cannot vary"),
        ("job", "--batch", "write --batch with a value in it, to vary it"),
        (
            "program",
            "--batches",
            "train.py --batch=4 --steps 2: write --batches with a value in it, to vary it",
        ),
        ("program", "--bat", "write --bat with a value in it, to vary it"),
    ],
)
def test_what_is_not_there_is_a_mistake(varied, entry, name, mistake):
    _, mistakes = varied(entry, name, 16)

    assert len(mistakes) == 1
    assert mistakes[0].startswith("a.membudget.yaml:")
    assert mistake in mistakes[0]
