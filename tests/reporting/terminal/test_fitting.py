"""Names and code in the columns of a terminal."""

import pytest

from pytest_membudget.reporting.terminal.fitting import common_prefix, cut_end, cut_middle


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
