"""The mutations fit the sources, and the program tells what is caught from what is not.

All of them are run by ``tox -e mutation``; here a handful that need no torch.
"""

import os
import subprocess
import sys
from pathlib import Path

import mutate_gate
import pytest
from mutate_gate import Mutation, Outcome, Stale

pytestmark = pytest.mark.slow

PACKAGE = mutate_gate.ROOT / "src" / mutate_gate.PACKAGE

#: One of each area whose tests import no torch.
SAMPLE = (
    "over-is-within",
    "unknown-argument-ignored",
    "never-merged",
    "grown-ignored",
    "grid-partly-expanded",
)


@pytest.fixture(scope="module")
def mutations():
    return mutate_gate.read_table()


@pytest.fixture(autouse=True)
def sources():
    if not PACKAGE.is_dir():
        pytest.skip("the sources are not here")


def test_no_mutation_is_stale(mutations):
    """Each old text is in its file exactly once: else the source has moved on, and so must the table."""
    assert mutate_gate.stale(mutations, PACKAGE) == []


def test_names_are_unique(mutations):
    names = [mutation.name for mutation in mutations] + sorted({mutation.area for mutation in mutations})

    assert len(names) == len(set(names))


def test_every_mutation_names_tests_that_there_are(mutations):
    paths = {test.partition("::")[0] for mutation in mutations for test in mutation.tests}

    assert all(mutation.tests for mutation in mutations)
    assert [path for path in sorted(paths) if not (mutate_gate.ROOT / path).is_file()] == []


def test_every_mutation_is_python(mutations):
    for mutation in mutations:
        compile(mutation.mutated(PACKAGE), mutation.file, "exec")


def run(*arguments):
    """The program in a process of its own, which must not have imported the package."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, mutate_gate.__file__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_sample_is_caught():
    done = run("--skip-unbroken", *SAMPLE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(SAMPLE)} mutations, {len(SAMPLE)} caught, 0 survived" in done.stdout


# The program itself


def mutation(**more):
    given = {"area": "a", "name": "n", "breaks": "b", "file": "f.py", "old": "1", "new": "2", "tests": ()}
    return Mutation(**{**given, **more})


@pytest.mark.parametrize(("text", "said"), [("0", "is there 0 times"), ("1 + 1", "is there 2 times")])
def test_an_old_text_that_is_not_there_just_once_is_stale(tmp_path, text, said):
    (tmp_path / "f.py").write_text(text)

    with pytest.raises(Stale, match=said):
        mutation().mutated(tmp_path)


def test_a_file_that_is_gone_and_a_mutation_that_changes_nothing_are_stale(tmp_path):
    (tmp_path / "f.py").write_text("1")

    assert "has no file" in mutate_gate.stale([mutation(file="g.py")], tmp_path)[0]
    assert len(mutate_gate.stale([mutation(new="1")], tmp_path)) == 1


def test_what_changes_no_behaviour_survives_and_ends_the_program_with_1(tmp_path):
    table = tmp_path / "table"
    table.mkdir()
    (table / "docs.yaml").write_text(
        "- {name: other-words, breaks: nothing, file: units.py, tests: tests/test_units.py,\n"
        '   old: "Sizes: bytes inside, GiB in text.", new: "Sizes."}\n'
    )
    code = (
        "import pathlib, sys, mutate_gate; "
        f"table = mutate_gate.read_table(pathlib.Path({str(table)!r})); "
        "mutate_gate.read_table = lambda: table; sys.exit(mutate_gate.main(['--skip-unbroken']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(mutate_gate.__file__).parent)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "docs/other-words: SURVIVED: its tests are green" in done.stdout


CAUGHT = Outcome(mutation(breaks="a | b"), "tests/test_a.py::test_b", 1.25)
SURVIVED = Outcome(mutation(name="m"), None, 2.0, "its tests are green")


def kept(*outcomes, remark=""):
    return {"remark": remark, "outcomes": [mutate_gate.kept_of(outcome) for outcome in outcomes]}


def test_the_page_names_who_caught_what_and_who_survived():
    text = mutate_gate.page(kept(CAUGHT, SURVIVED))

    assert "2 mutations, 1 caught, 1 survived." in text
    assert "| n | a \\| b | `tests/test_a.py::test_b` | 1.2 |" in text
    assert "| m | b | **survived**: its tests are green | 2.0 |" in text


def test_the_docs_show_the_summary_of_the_kept_outcomes():
    from benchmarks import pages

    shown = pages.summary_in(pages.SUMMARIES.read_text(encoding="utf-8"), "mutations")

    assert shown == mutate_gate.summary(mutate_gate.read_kept()), "run mutate_gate.py --only-kept"
