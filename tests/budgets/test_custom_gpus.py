"""Cards of the user's own: from pyproject.toml, checked, and there in every process."""

import pytest

from pytest_membudget.budgets.custom_gpus import CARD, custom_gpus
from pytest_membudget.errors import UsageMistake
from pytest_membudget.hardware.gpus import CUSTOM_GPUS, find_gpu, load_gpus
from pytest_membudget.user_input.files import read_yaml

#: A card that nobody sells.
TABLE = """
[tool.membudget]
gpu = "lab 12gb"

[tool.membudget.gpus.LAB-12GB]
total_bytes = 12_000_000_000
capability = [8, 6]
multiprocessor_count = 46
context_bytes = 300_000_000
aliases = ["OUR-LAB"]
"""


@pytest.fixture
def cards_of(tmp_path):
    """What ``pyproject.toml`` with this text makes of the user's cards."""

    def read(pyproject=TABLE):
        (tmp_path / "pyproject.toml").write_text(pyproject, encoding="utf-8")
        return custom_gpus(tmp_path / "pyproject.toml")

    return read


@pytest.fixture
def refusal_of(cards_of):
    def read(pyproject):
        with pytest.raises(UsageMistake) as refusal:
            cards_of(pyproject)
        return str(refusal.value)

    return read


@pytest.fixture
def announced(cards_of, monkeypatch):
    """The catalogue with the cards of this text."""

    def announce(pyproject=TABLE):
        monkeypatch.setenv(CUSTOM_GPUS, cards_of(pyproject))

    return announce


def test_without_the_setting_there_are_none(cards_of):
    assert cards_of("[tool.membudget]\n") == ""


def test_a_card_is_found_by_its_name_and_its_alias(announced):
    announced()

    card = find_gpu("lab 12gb")

    assert (card.name, card.total_bytes, card.capability) == ("LAB-12GB", 12_000_000_000, (8, 6))
    assert card.usable_bytes == 11_700_000_000
    assert card.context_confidence == "typical"
    assert find_gpu("our-lab") == card


def test_a_card_of_a_catalogued_name_takes_its_place(announced):
    announced(TABLE.replace("LAB-12GB", "RTX-4090"))

    assert find_gpu("RTX-4090").total_bytes == 12_000_000_000
    assert list(load_gpus()).count("RTX-4090") == 1


def test_mistakes_name_file_line_value_and_remedy(refusal_of):
    text = refusal_of(
        "[tool.membudget.gpus.X-1GB]\ntotl_bytes = 1\ncapability = [9]\nmultiprocessor_count = 'many'\n"
        "context_bytes = 1\n"
    )

    lines = [line.partition("pyproject.toml")[2] for line in text.splitlines()]
    assert [line.partition(": [tool.membudget] gpus.X-1GB.")[::2] for line in lines] == [
        (":1", "totl_bytes = 1: there is no field totl_bytes in gpus.X-1GB; did you mean total_bytes?"),
        (
            ":1",
            "capability = [9]: write a list of 2, each a whole number of at least 0, "
            "as in gpus.X-1GB.capability = [9, 0]",
        ),
        (
            ":1",
            "multiprocessor_count = 'many': write a whole number of at least 1, "
            "as in gpus.X-1GB.multiprocessor_count = 128",
        ),
        (":1", "total_bytes is missing: `torch.cuda.get_device_properties(0).total_memory`."),
    ]


@pytest.mark.parametrize(
    ("pyproject", "told"),
    [
        ("gpus = 3", "pyproject.toml:1: [tool.membudget] gpus = 3: write a table of cards by their names"),
        ("gpus = {}", "write a table of cards by their names"),
        ("gpus = {X = 3}", "pyproject.toml:1: [tool.membudget] gpus.X = 3: write a table of total_bytes, "),
    ],
)
def test_what_is_no_table_of_cards_is_refused(refusal_of, pyproject, told):
    assert told in refusal_of(f"[tool.membudget]\n{pyproject}\n")


def test_a_name_that_means_another_card_is_refused(refusal_of):
    text = refusal_of(TABLE.replace("OUR-LAB", "rtx 4090"))

    assert text.endswith("LAB-12GB: rtx 4090 means RTX-4090 already; write another name")


def test_every_figure_of_the_packages_own_file_but_its_sources_is_a_field_of_cards():
    import pytest_membudget.hardware.gpus as gpus

    path = gpus.resources.files("pytest_membudget.hardware").joinpath("gpus.yaml")
    cards = read_yaml(path, "gpus.yaml").value["cards"].value.values()

    assert {key for card in cards for key in card.value} == {
        *(*CARD.by_name, "properties"),
        *("sources", "contexts", "nominal_gib"),
    }


def test_a_session_estimates_on_a_card_of_the_users(session_of):
    run = session_of(
        {
            "pyproject.toml": TABLE,
            "test_it.py": """
                import pytest
                from holding import hold

                @pytest.mark.mem_budget(gpu="LAB-12GB")
                def test_fits():
                    import torch

                    assert torch.cuda.get_device_properties(0).total_memory == 12_000_000_000
                    hold(10)

                @pytest.mark.mem_budget(gpu="LAB-12GB")
                def test_does_not_fit():
                    hold(11)
                """,
        },
        "--membudget",
        "-n2",
    )

    assert run.outcomes == {"test_fits": "passed", "test_does_not_fit": "failed"}
    assert "does not fit on LAB-12GB" in run.text("test_does_not_fit")
