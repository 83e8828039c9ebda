"""Names of files for tests: for any file system, readable, and no two the same."""

import re

import pytest

from pytest_membudget.budgets.node_ids import file_name_of


def test_the_name_says_which_test_it_is():
    assert file_name_of("tests/test_a.py::TestB::test_c[x-1]").startswith("tests-test_a-py-TestB-test_c-x-1-")


@pytest.mark.parametrize(
    "nodeid",
    [
        pytest.param('größe.py::test[ä/ö:*?<>|"\\]', id="other letters"),
        pytest.param("a.py::test[\x00\n]", id="control characters"),
        pytest.param("con.py::" + "x" * 5000, id="long"),
        pytest.param("..", id="dots"),
        pytest.param("", id="empty"),
        pytest.param("a.py::t[\udc80]", id="surrogate"),
    ],
)
def test_the_name_is_plain_and_short_whatever_the_id(nodeid):
    assert re.fullmatch(r"[A-Za-z0-9_-]{12,120}", file_name_of(nodeid))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.py::test_x", "a.py::test_X"),
        ("a.py::test[1/2]", "a.py::test[1:2]"),
        ("a.py::" + "x" * 200 + "1", "b.py::" + "x" * 200 + "1"),
    ],
    ids=["case", "replaced characters", "cut"],
)
def test_two_tests_have_two_names_where_case_does_not_count(one, other):
    assert file_name_of(one).lower() != file_name_of(other).lower()


def test_the_name_is_the_same_in_every_session():
    # printf a.py::test_x | sha256sum
    assert file_name_of("a.py::test_x") == "a-py-test_x-f95f23caa54b"
