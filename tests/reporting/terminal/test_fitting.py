"""Names and code in the columns of a terminal."""

import pytest

from pytest_membudget.reporting.terminal.fitting import (
    common_prefix,
    cut_end,
    cut_middle,
    folded,
    terminal_width,
)


def test_a_name_is_cut_in_its_middle_and_keeps_more_of_its_end():
    cut = cut_middle("model.layers.*.self_attn.q_proj.weight", 24)

    assert len(cut) == 24
    assert cut == "model.l…tn.q_proj.weight"


@pytest.mark.parametrize("cut", [cut_middle, cut_end])
def test_what_fits_is_whole_and_there_is_a_least_width(cut):
    assert cut("model.layers", 12) == "model.layers"
    assert len(cut("a" * 50, -3)) == 12


@pytest.mark.parametrize(
    ("nodeids", "prefix"),
    [
        (["tests/a.py::test_one", "tests/a.py::test_two"], "tests/a.py::"),
        (["tests/a.py::test_one", "tests/ab.py::test_one"], "tests/"),
        (["a.py::TestA::test_one", "a.py::TestA::test_two"], "a.py::TestA::"),
        (["a.py::test[x/y::z]", "a.py::test[x/y::w]"], "a.py::"),
        (["a.py::test_one", "b.py::test_one"], ""),
        (["a.py", "a.py::test_one"], ""),
    ],
)
def test_the_common_prefix_ends_with_a_folder_a_file_or_a_class(nodeids, prefix):
    assert common_prefix(nodeids) == prefix


@pytest.mark.parametrize(("columns", "width"), [("120", 120), ("40", 40), ("39", 80)])
def test_a_terminal_too_narrow_to_read_is_taken_for_one_of_80_columns(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)

    assert terminal_width() == width


def test_a_line_is_folded_between_words_and_what_fits_is_as_it_is():
    assert list(folded(["a  b", "", "one two three"], 8)) == ["a  b", "", "one two", "  three"]
    assert list(folded(["  1.0 GiB  one two"], 14, column=11)) == ["  1.0 GiB  one", "           two"]


def test_a_word_that_is_wider_is_whole_and_others_keep_their_indentation():
    assert list(folded(["no " + "x" * 30 + " no"], 10)) == ["no", "  " + "x" * 30, "  no"]
    assert list(folded(["no more " + "x" * 10], 10)) == ["no more", "x" * 10]
