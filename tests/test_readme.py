"""The README names every example and every page; names of the code are held by ``test_reference``."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("test_*.py")), ids=lambda path: path.name)
def test_every_example_has_a_line_in_the_readme(path):
    assert f"examples/{path.name}" in README


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_every_page_has_a_line_in_the_readme(path):
    assert f"(docs/{path.name})" in README


def test_no_place_is_left_open_in_the_readme_but_the_owner_of_the_repository_until_a_release():
    assert not re.search(r"@[A-Z_]+@", README)
    assert README.count("OWNER") == README.count("git+https://github.com/OWNER/pytest-membudget") == 1


def test_the_first_screen_has_the_use_in_a_project():
    first = README.partition("## A marked test")[0]

    assert len(first.splitlines()) < 60
    for needed in ("pip install", "script:", "`pytest --membudget ", "--membudget-update", "runs-on:"):
        assert needed in first


ACCURACY = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")


def cells_of(page, first):
    """The cells of the row of a table in ``page`` that begins with ``first``, but for that one."""
    row = next(line for line in page.splitlines() if line.startswith(f"| {first}"))
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def test_its_figures_of_measured_steps_are_those_of_the_accuracy_page():
    cards = zip(*(map(int, cells_of(ACCURACY, card)) for card in ("H200 |", "H100 |")), strict=True)
    steps, allocated, reserved = map(sum, cards)

    what = cells_of(README, f"{steps} steps")[0]

    assert what.startswith(f"allocated peak equal to the byte in {allocated}, reserved peak in {reserved};")


def test_its_figures_of_published_cases_are_those_of_the_accuracy_page():
    cases, median, _, below, within, above = cells_of(ACCURACY, "**all**")

    what = cells_of(README, f"{cases} published figures")[0]

    assert what.startswith(f"median ratio {median}: {within} within 0.1%, {below} below, {above} above;")
