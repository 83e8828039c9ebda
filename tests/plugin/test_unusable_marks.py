"""A mark that cannot be used as it is written fails its own test, says what to write, and stops no other."""

import pytest

#: Argument as written, and what the failure has to say besides it.
MALFORMED = [
    ("40", "write mem_budget(gib=40)"),
    ("gib='40'", "write a finite number of GiB above 0, as in gib=40"),
    ("gib=True", "write a finite number of GiB above 0, as in gib=40"),
    ("gib=0", "write a finite number of GiB above 0, as in gib=40"),
    ("gib=-1", "write a finite number of GiB above 0, as in gib=40"),
    ("gib=float('nan')", "write a finite number of GiB above 0, as in gib=40"),
    ("gib=float('inf')", "write a finite number of GiB above 0, as in gib=40"),
    ("gib=[40]", "write a finite number of GiB above 0, as in gib=40"),
    ("gig=40", "did you mean gib?"),
    ("gib=40, gpus=0", "write a whole number from 1 to 65536, as in gpus=1"),
    ("gib=40, gpus=1.5", "as in gpus=1"),
    ("gib=40, gpus=70000", "from 1 to 65536"),
    ("gpu='H100-80BG'", "H100-80GB"),
    ("gpu=80", "as in 'H100-80GB'"),
    ("gib=40, metric='peak'", "'allocated', 'reserved', 'device'"),
    ("gib=40, metric=['allocated']", "'allocated', 'reserved', 'device'"),
    ("components={}", "components={'parameters': 40}"),
    ("components=12", "components={'parameters': 40}"),
    ("components={'activation': 12}", "did you mean activations?"),
    ("components={'activations': '12'}", "as in components={'activations': 40}"),
    ("components={'cached': 1}", "metric='reserved'"),
    ("gib=40, max_growth='2 percent'", "'2% + 64 MiB'"),
    ("gib=40, host_gib='1'", "above 0, as in host_gib=40"),
    ("gib=40, ranks='odd'", "'first', 'last', 'all'"),
    ("gib=40, ranks=[1]", "write ranks that there are"),
    ("gib=40, scenario='llama'", "file::name"),
    ("gib=40, scenario='a.yaml::b'", "cannot be read"),
    ("gib=40, reason=''", "write a text"),
]
HEAD = "import pytest\nfrom holding import hold\n"
GOOD = """
@pytest.mark.mem_budget(gib=1)
def test_good():
    hold(0.1)
"""


#: Values that only fail when they are worked with.
AWKWARD = """
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
"""


def line_of(number):
    return HEAD.count("\n") + 3 * number + 1


@pytest.fixture(scope="module")
def run(session_of, both_ways):
    marked = "".join(
        f"@pytest.mark.mem_budget({written})\ndef test_{number}():\n    hold(0.1)\n"
        for number, (written, _) in enumerate(MALFORMED)
    )
    return session_of({"test_marks.py": HEAD + marked + AWKWARD + GOOD}, "--membudget", *both_ways)


@pytest.mark.parametrize(
    "number", range(len(MALFORMED)), ids=[written or "nothing" for written, _ in MALFORMED]
)
def test_the_failure_has_place_value_and_remedy(run, number):
    written, remedy = MALFORMED[number]
    name = f"test_{number}"

    assert run.outcomes[name] == "failed", run.out
    text = run.text(name)
    assert text.startswith(f"test_marks.py:{line_of(number)}: ")
    assert "mem_budget(" in text.splitlines()[0]
    assert remedy in text
    value = written.partition("=")[2] if written.count("=") == 1 else written.rpartition("=")[2]
    assert _as_shown(value) in text


def _as_shown(value):
    return {"float('nan')": "nan", "float('inf')": "inf"}.get(value, value)


@pytest.mark.parametrize("name", ["test_awkward", "test_endless"])
def test_a_value_that_cannot_be_worked_with_fails_its_own_test(run, name):
    assert run.outcomes[name] == "failed", run.out
    assert run.text(name).startswith("test_marks.py:")
    assert "write" in run.text(name)


def test_the_others_are_estimated_all_the_same(run):
    assert run.outcomes["test_good"] == "passed"
    assert run.status == 1
    assert "INTERNALERROR" not in run.out


def test_the_report_has_a_row_for_each_of_them(run):
    assert len(run.rows) == len(MALFORMED) + 3
    assert all(run.rows[f"test_{number}"]["verdict"] == "error" for number in range(len(MALFORMED)))
