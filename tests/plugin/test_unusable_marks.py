"""A mark that cannot be used as it is written fails its own test, says what to write, and stops no other.

What each argument takes is in ``tests/budgets/test_marker.py``.
"""

import pytest

#: Argument as written, and what the failure has to say besides it.
MALFORMED = [
    ("40", "write mem_budget(gib=40)"),
    ("gib='40'", "write a finite number of GiB above 0, as in gib=40"),
    ("gig=40", "did you mean gib?"),
    ("gpu='H100-80BG'", "H100-80GB"),
    ("components={'activation': 12}", "did you mean activations?"),
    ("gib=40, scenario='a.yaml::b'", "a scenario is a separate test in its *.membudget.yaml"),
]
HEAD = "import pytest\nfrom holding import hold\n"
#: Values that only fail when they are worked with; and a mark that is right.
OTHERS = """
class Awkward:
    def __eq__(self, other):
        raise RuntimeError("no comparison")
    def __repr__(self):
        raise RuntimeError("no text")

@pytest.mark.mem_budget(gib=1, metric=Awkward())
def test_awkward():
    hold(0.1)

@pytest.mark.mem_budget(gib=10**400)
def test_endless():
    hold(0.1)

@pytest.mark.mem_budget(gib=1)
def test_good():
    hold(0.1)
"""


@pytest.fixture(scope="module")
def run(session_of):
    marked = "".join(
        f"@pytest.mark.mem_budget({written})\ndef test_{number}():\n    hold(0.1)\n"
        for number, (written, _) in enumerate(MALFORMED)
    )
    return session_of({"test_marks.py": HEAD + marked + OTHERS}, "--membudget")


@pytest.mark.parametrize("number", range(len(MALFORMED)), ids=[written for written, _ in MALFORMED])
def test_the_failure_has_place_value_and_remedy(run, number):
    written, remedy = MALFORMED[number]
    text = run.text(f"test_{number}")

    assert run.outcomes[f"test_{number}"] == "failed", run.out
    assert text.startswith(f"test_marks.py:{HEAD.count(chr(10)) + 3 * number + 1}: ")
    assert "mem_budget(" in text.splitlines()[0]
    assert remedy in text
    assert written.rpartition("=")[2] in text


@pytest.mark.parametrize("name", ["test_awkward", "test_endless"])
def test_a_value_that_cannot_be_worked_with_fails_its_own_test(run, name):
    assert run.outcomes[name] == "failed", run.out
    assert run.text(name).startswith("test_marks.py:")
    assert "write" in run.text(name)


def test_the_others_are_estimated_and_each_has_its_row(run):
    assert run.outcomes["test_good"] == "passed"
    assert run.status == 1
    assert "INTERNALERROR" not in run.out
    assert len(run.rows) == len(MALFORMED) + 3
    assert all(run.rows[f"test_{number}"]["verdict"] == "error" for number in range(len(MALFORMED)))
