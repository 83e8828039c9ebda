"""The base as it is known: rows, and why some are missing."""

from pytest_membudget.comparison.base.exchange import Base, Facts, base_of_document
from pytest_membudget.reporting.document import Document


def test_a_file_that_could_not_be_collected_is_reported_for_its_own_tests():
    base = Base(errors={"tests/test_a.py": "SyntaxError", "tests/sub": "no"})
    assert base.trouble_of("tests/test_a.py::test_x[1]") == (
        "the base's tests/test_a.py could not be collected: SyntaxError"
    )
    assert base.trouble_of("tests/sub/test_b.py::test_y").endswith("no")
    assert base.trouble_of("tests/test_ab.py::test_x") == ""
    assert base.trouble_of("tests/subtle.py::test_x") == ""


def test_a_stored_report_has_results_and_what_they_were_made_with(row):
    base = base_of_document(Document((row(1),), torch="2.13.0", alloc_conf="", distributions={"a": "1"}))
    assert list(base.results) == ["test_a.py::test_a"]
    assert (base.facts.torch, base.facts.alloc_conf) == ("2.13.0", "")
    assert base.facts.distributions == {"a": "1"}
    assert base_of_document(Document(())).facts.torch is None


def test_in_another_environment_this_package_runs_too_whether_or_not_it_is_installed_there():
    head = Facts(distributions={"pytest-membudget": "2", "peft": "1"})
    base = {"torch": "1", "peft": "1"}

    assert list(Facts(distributions=base, is_environment=True).version_changes(head)) == ["torch"]
    assert list(Facts(distributions=base).version_changes(head)) == ["pytest-membudget", "torch"]
