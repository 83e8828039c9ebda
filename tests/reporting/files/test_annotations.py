"""Workflow commands of GitHub: at the test, at the line that grew, ten of a kind; GitLab's code quality."""

import json
import re

import pytest

from pytest_membudget.reporting.files.annotations import code_quality, workflow_commands

GIB = 2**30


@pytest.fixture
def root(tmp_path):
    """The folder of the tests, with the file that grew in it."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/model.py").touch()
    return tmp_path


def test_a_failure_is_an_error_at_its_mark(document, row, over, root):
    assert workflow_commands(document(row(), over()), root=root) == (
        "::error file=tests/test_memory.py,line=12,title=GPU memory%3A over budget::"
        "tests/test_memory.py::test_over: Takes 4.00 GiB, 1.00 GiB over its budget of 3.00 GiB. "
        "Take 1.00 GiB off, first at src/model.py:41, or write gib=4.\n"
    )


def test_the_line_that_grew_is_an_error_too(document, row, comparison, root):
    mark, line = workflow_commands(document(row(comparison=comparison())), root=root).splitlines()
    assert mark.startswith("::error file=tests/test_memory.py,line=12,title=GPU memory%3A grown too much::")
    assert line == (
        "::error file=src/model.py,line=57,title=GPU memory%3A what grew::+1.00 GiB activations of "
        "layers.*.mlp at src/model.py:57 (was src/model.py:55) (aten::gelu), "
        "in tests/test_memory.py::test_step"
    )


def test_a_line_of_an_installed_package_is_named_and_not_annotated(document, row, comparison, tmp_path):
    [line] = workflow_commands(document(row(comparison=comparison())), root=tmp_path).splitlines()
    assert "first at src/model.py:57" in line


@pytest.mark.parametrize(
    ("status", "allowed", "command"),
    [("unchanged", True, "warning"), ("not comparable", None, "warning"), ("shrunk", None, "notice")],
)
def test_what_does_not_fail_is_no_error(document, row, over, comparison, root, status, allowed, command):
    made = over() if allowed else row()
    known = comparison(status=status, allowed=allowed)
    [line] = workflow_commands(document({**made, "comparison": known}), root=root).splitlines()
    assert line.startswith(f"::{command} ")


@pytest.mark.parametrize("status", ["new", "unchanged", "grown"])
def test_what_needs_no_eye_is_not_annotated(document, row, comparison, root, status):
    assert (
        workflow_commands(document(row(comparison=comparison(status=status, allowed=None))), root=root) == ""
    )


def test_a_failure_that_is_expected_is_not_annotated(document, over, root):
    assert workflow_commands(document(over(expected=True)), root=root) == ""


def test_paths_start_at_the_root_of_the_repository(document, over, root):
    text = workflow_commands(document(over()), root=root, prefix="packages/a/")
    assert "file=packages/a/tests/test_memory.py," in text


def test_of_too_many_the_worst_are_shown_and_the_rest_counted(document, over, root):
    rows = [over(f"t::test_{n}", limit_bytes=3 * GIB - n) for n in range(24)]
    lines = workflow_commands(document(*rows), root=root).splitlines()
    assert len(lines) == 10
    assert "::t::test_23: " in lines[0]
    assert lines[-1] == "::error title=GPU memory::and 15 more; the job summary and report.json have them all"


def test_a_hostile_report_gives_no_command_of_its_own(document, hostile_report, root):
    text = workflow_commands(document(*hostile_report["tests"]), root=root)
    lines = text.splitlines()
    assert len(lines) == text.count("\n") == 3
    for line in lines:
        assert re.match(r"::(error|warning) title=GPU memory%3A [a-z ]+::", line)


# GitLab's code quality


def test_code_quality_has_what_fails_at_its_mark(document, row, over):
    [entry] = json.loads(code_quality(document(row(), over())))
    assert entry.pop("description").startswith(
        "tests/test_memory.py::test_over: Takes 4.00 GiB, 1.00 GiB over"
    )
    assert len(entry.pop("fingerprint")) == 64
    assert entry == {
        "check_name": "membudget-over-budget",
        "severity": "major",
        "location": {"path": "tests/test_memory.py", "lines": {"begin": 12}},
    }


def test_what_is_over_since_before_is_minor(document, over, comparison):
    [entry] = json.loads(
        code_quality(document(over(comparison=comparison(status="unchanged", allowed=True))))
    )
    assert (entry["severity"], entry["check_name"]) == ("minor", "membudget-over-since-before")


def test_a_fingerprint_stays_when_lines_and_figures_change(document, over):
    def fingerprint(*args, **changes):
        return json.loads(code_quality(document(over(*args, **changes))))[0]["fingerprint"]

    assert fingerprint() == fingerprint(location="tests/test_memory.py:40", limit_bytes=2 * GIB)
    assert fingerprint() != fingerprint("tests/test_memory.py::test_other")
    assert fingerprint() != fingerprint(location="tests/other.py:12")


def test_a_hostile_report_has_paths_inside_the_repository(document, hostile_report):
    for entry in json.loads(code_quality(document(*hostile_report["tests"]))):
        assert not entry["location"]["path"].startswith(("/", "."))
        assert entry["location"]["lines"]["begin"] >= 1
