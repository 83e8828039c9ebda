"""``membudget bisect``: what is good, bad or skipped, what is printed, and the exit status."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from pytest_membudget.budgets.budget import parse_growth
from pytest_membudget.commands import bisect, releases, sessions
from pytest_membudget.commands.bisect import Bisection, Points
from pytest_membudget.commands.main import main
from pytest_membudget.commands.releases import releases_between
from pytest_membudget.errors import UsageMistake
from pytest_membudget.reporting.document import Document
from pytest_membudget.results.comparison import BaseFigure, Comparison, Finding
from pytest_membudget.results.test_result import TestResult
from tests.repositories import git

MIB = 2**20


@contextmanager
def base_of(name):
    if name == "broken":
        raise OSError("it cannot be installed")
    yield name


@pytest.fixture
def bisected(monkeypatch):
    """``bisected({"a": 64, "b": {"t": 65}, "c": "why"})``: exit status, lines and the points that were tried.

    Of each point what test ``t`` takes in MiB, of several tests by name, or why it has no figure.
    """

    def run(figures, tolerance="1%"):
        tried, lines = [], []

        def session(arguments):
            name = arguments[-1].partition("=")[2]
            tried.append(name)
            given = figures[name]
            return Document(tuple(_rows(given if isinstance(given, dict) else {"t": given})))

        monkeypatch.setattr(bisect, "report_of_session", session)
        names = [*figures]
        points = Points("commit", names, lambda number: base_of(names[number]))
        monkeypatch.setattr(bisect, "print_lines", lines.extend)
        bisection = Bisection(points, ["t.py"], parse_growth(tolerance))
        return bisection.run(), lines, tried

    return run


def _rows(given):
    for name, size in given.items():
        if isinstance(size, str):
            comparison = Comparison("not comparable", size)
        else:
            rest = (100 - size) * MIB
            found = (Finding(rest, "activations", location="m.py:3"),) if rest else ()
            comparison = Comparison(
                "grown", bytes=100 * MIB, findings=found,
                base=BaseFigure(size * MIB, {"activations": size * MIB}),
            )  # fmt: skip
        yield TestResult(name, "t.py:1", "within", "", comparison=comparison)


def test_the_first_point_that_takes_more_is_named_with_its_lines(bisected):
    status, lines, tried = bisected({"a": 50, "b": 50, "c": 100, "d": 100, "e": 100})

    assert status == 0
    assert tried == ["a", "e", "c", "b"]
    assert "\nfirst commit that takes more: c" in lines
    assert "  t: 100.0 MiB, 50.0 MiB (100.0%) more than at b" in lines
    after = lines[lines.index("\nb to c, t:") + 1 :]
    assert after[0].split() == ["+50.0", "MiB", "activations"]
    assert after[1].split() == ["m.py:3"]


def test_where_later_points_take_something_else_the_step_has_its_components(bisected):
    assert bisected({"a": 50, "b": 60})[1][-1] == "     +10.0 MiB  activations"


def test_growth_within_the_tolerance_is_good(bisected):
    figures = {"a": 50, "b": 51, "c": 60}

    assert "\nfirst commit that takes more: c" in bisected(figures, "2%")[1]
    assert "\nfirst commit that takes more: b" in bisected(figures, "1%")[1]


@pytest.mark.parametrize(
    ("point", "taken", "why"),
    [("c", "it was skipped", "it was skipped"), ("broken", 50, "it cannot be installed")],
)
def test_a_point_without_a_figure_is_skipped_and_says_why(bisected, point, taken, why):
    status, lines, _ = bisected({"a": 50, "b": 50, point: taken, "d": 60})

    assert status == 1
    assert f"skip  {point}" in lines
    assert f"      t: no figure: {why}" in lines
    assert f"\nthe first commit that takes more is one of: {point}, d" in lines


def test_of_several_tests_the_first_to_grow_counts_and_one_without_a_figure_is_not_good(bisected):
    grown = {"a": {"t": 50, "u": 50, "v": 9}, "b": {"t": 50, "u": "why"}, "c": {"t": 50, "u": 60, "v": 9}}
    status, lines, _ = bisected(grown)

    assert status == 1
    assert "skip  b" in lines
    assert not any(line.startswith("  t:") for line in lines)


def test_where_nothing_has_grown_there_is_nothing_to_find(bisected):
    status, lines, tried = bisected({"a": 50, "b": 60, "c": 50})

    assert (status, tried) == (1, ["a", "c"])
    assert lines[-1] == "nothing to find: no test takes more at c"


@pytest.mark.parametrize("figures", [{"a": "why", "b": 50}, {"a": 50, "b": "why"}, {"a": 50}])
def test_ends_without_figures_cannot_be_bisected(bisected, figures):
    with pytest.raises(UsageMistake):
        bisected(figures)


# Releases


@pytest.fixture
def pip(monkeypatch):
    """pip knows five releases of a package."""

    def answer(*arguments):
        listed = "a (2.0)\nAvailable versions: 2.0, 1.10, 1.9, 1.9rc1, 1.0\n" if "a" in arguments else ""
        return subprocess.CompletedProcess(arguments, 0, listed, "ERROR: No matching distribution found")

    monkeypatch.setattr(releases, "_pip", answer)


def test_releases_are_ordered_as_versions_are(pip):
    assert releases_between("a==1.9", "a==2.0") == ["a==1.9", "a==1.10", "a==2.0"]
    assert releases_between("a==2.0", "a==1.9") == ["a==2.0", "a==1.10", "a==1.9"]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("a==1.0", "b==2.0", "write two releases of one package"),
        ("a==1.0", "HEAD", "write two releases of one package"),
        ("a==1.0", "a==1.7", "a==1.7: there is no such release for this Python"),
        ("a==1.0", "a==new", "a==new: new is no version"),
        ("b==1.0", "b==2.0", "b: pip finds no releases: ERROR: No matching distribution found"),
    ],
)
def test_releases_that_cannot_be_bisected_are_refused(pip, good, bad, message, capsys):
    assert main(["bisect", good, bad]) == 2
    assert message in capsys.readouterr().err


# A repository


def scenario(layers):
    return f"""
budgets:
  - name: job
    gib: 1
    implementation: formulas
    sequence: 128
    model: {{config: {{model_type: llama, hidden_size: 64, intermediate_size: 128, vocab_size: 1000,
        num_hidden_layers: {layers}, num_attention_heads: 4}}}}
"""


@pytest.mark.usefixtures("warm_processes")
def test_a_repository_is_bisected_to_its_commit(tmp_path_factory, tmp_path, cache_in, monkeypatch, capsys):
    git(tmp_path, "init", "-q", "-b", "main")
    for layers, subject in ((4, "Four layers"), (8, "Eight layers"), (8, "A note")):
        (tmp_path / "jobs.membudget.yaml").write_text(scenario(layers))
        (tmp_path / "note").write_text(subject)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", subject)
    for name, value in cache_in(tmp_path_factory.mktemp("kept")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sessions, "_PYTEST", (sys.executable, *sessions._PYTEST[1:]))

    status = main(["bisect", "main~2", "main", "--", "jobs.membudget.yaml"])
    out = capsys.readouterr().out

    assert status == 0, out
    [line] = [line for line in out.splitlines() if line.startswith("first commit that takes more: ")]
    assert line.endswith(" Eight layers")
