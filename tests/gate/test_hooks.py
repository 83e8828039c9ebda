"""What the gate makes of estimates, in whole sessions with given ones in place of a worker's.

No torch is imported and nothing is traced, so that a session takes half a second. That workers estimate so is
held in ``tests/plugin``.
"""

import pytest

from tests.gate.given import ALONE, ASKED, XDIST, given_files

TWO = "mem_budget(gib=2)"
#: By what becomes of them: what each test takes, and its marks.
BY_OUTCOME = {
    "passed": {
        "test_within": ("takes(1)", TWO),
        "test_a_little_more_on_cuda": ("takes(1)", TWO),
        "test_within_and_expected_over": ("takes(1)", "xfail", TWO),
    },
    # without a limit; pytest's reports have no word for them but that they have not failed
    "unset": {
        "test_growth_alone": ("takes(1)", 'mem_budget(max_growth="1%")'),
        "test_bare": ("takes(3.125, activations=3)", "mem_budget"),
    },
    # with an estimate that is over, or out of memory on its card
    "over": {
        "test_over": ("takes(3)", TWO),
        "test_component": ("takes(1, activations=0.75)", 'mem_budget(components={"activations": 0.5})'),
        "test_out_of_memory": ('out_of_memory("aten::mm", "a.py:1")', TWO),
        "test_over_and_another_expected": ("takes(3)", "xfail(raises=KeyError)", TWO),
        "test_over_and_not_expected_here": ("takes(3)", 'xfail(False, reason="does not apply")', TWO),
    },
    "expected over": {"test_within_and_strictly_over": ("takes(1)", "xfail(strict=True)", TWO)},
    "measured over": {"test_more_on_cuda": ("takes(1)", TWO)},
    # held to nothing
    "unchecked": {
        "test_lost": ('error("the worker was killed\\nits last lines")', TWO),
        "test_raises": ('raises("ValueError: no")', TWO),
        "test_bare_raises": ('raises("AssertionError: 2 > 1")', "mem_budget"),
        "test_bare_takes_nothing": ("takes(0)", 'mem_budget(gpus=1, metric="allocated")'),
        "test_unchecked": ('error("could not be traced")', TWO),
        "test_nothing_on_cuda": ("takes(0)", TWO),
        "test_malformed": ("", "mem_budget(gib=0)"),
        "test_awkward": ("", "mem_budget(gib=1, metric=Awkward())"),
        "test_endless": ("", "mem_budget(gib=10**400)"),
        "test_unchecked_and_expected": ('error("could not be traced")', "xfail", TWO),
        "test_malformed_and_expected": ("", "xfail(strict=True)", 'mem_budget(gib="1")'),
        "test_nothing_on_cuda_and_expected": ("takes(0)", "xfail(strict=True)", TWO),
    },
    "skipped": {
        "test_skips_itself": ('skips("too slow")', TWO),
        "test_gives_itself_up": ('skips("xfail: not on this day")', TWO),
    },
    "xfailed": {
        "test_over_and_expected": ("takes(3)", "xfail", TWO),
        "test_over_and_strictly_expected": ("takes(3)", 'xfail(strict=True, reason="too large")', TWO),
        "test_not_to_be_run": ("takes(3)", "xfail(run=False)", TWO),
        "test_raises_and_expected": ('raises("ValueError: no")', "xfail", TWO),
    },
}
MEASURED = {
    "test_within": "takes(1)",
    "test_more_on_cuda": "takes(3)",
    "test_a_little_more_on_cuda": "takes(1.25)",
    "test_within_and_expected_over": "takes(1)",
    "test_within_and_strictly_over": "takes(1)",
    "test_bare": "takes(3.25)",
    "test_growth_alone": "takes(1)",
}
HEAD = """
ran = []

@pytest.fixture(autouse=True)
def resource(request):
    if request.node.get_closest_marker("mem_budget"):
        ran.append("fixture")

class Awkward:
    def __eq__(self, other):
        raise RuntimeError("no comparison")
    def __repr__(self):
        raise RuntimeError("no text")
"""
ROWS = {name: row for rows in BY_OUTCOME.values() for name, row in rows.items()}
FILES = given_files(ROWS, MEASURED, HEAD, 'ran.append("body")')
FILES["test_budgets.py"] += "\ndef test_nothing_ran_here():\n    assert not ran\n"
CONFTEST = FILES["conftest.py"]
UNSET, OVER, UNCHECKED = (set(BY_OUTCOME[name]) for name in ("unset", "over", "unchecked"))
PASSED = {*BY_OUTCOME["passed"], "test_nothing_ran_here"} | UNSET
SKIPPED, XFAILED = set(BY_OUTCOME["skipped"]), set(BY_OUTCOME["xfailed"])


@pytest.fixture(scope="module", params=[(), XDIST], ids=["alone", "xdist"])
def run(request, session_of):
    if request.param:
        pytest.importorskip("xdist")
    return session_of(FILES, *ASKED, *request.param, env=ALONE)


def test_only_what_is_within_its_budget_passes(run):
    assert {name for name, outcome in run.outcomes.items() if outcome == "passed"} == PASSED, run.out
    assert run.status == 1


def test_what_is_over_or_unchecked_fails(run):
    failed = {name for name, outcome in run.outcomes.items() if outcome == "failed"}

    assert failed == OVER | UNCHECKED | {"test_more_on_cuda", "test_within_and_strictly_over"}
    assert "XPASS(strict)" in run.message("test_within_and_strictly_over")


@pytest.mark.parametrize("name", sorted(OVER | UNCHECKED))
def test_a_budget_is_named_as_exceeded_or_as_held_to_nothing(run, name):
    error, verdict = ("BudgetExceeded", "over") if name in OVER else ("BudgetUnchecked", "error")
    assert run.message(name).startswith(f"{error}: ")
    assert run.rows[name]["verdict"] == verdict


def test_a_mark_that_cannot_be_used_fails_its_own_test_with_place_value_and_remedy(run):
    """What each argument takes is in ``tests/budgets/test_marker.py``."""
    text = run.text("test_malformed")
    assert text.startswith(f"{run.rows['test_malformed']['location']}: ")
    assert "mem_budget(gib=0)" in text.splitlines()[0]
    assert "write a finite number of GiB above 0, as in gib=40" in text


@pytest.mark.parametrize("name", ["test_awkward", "test_endless"])
def test_a_value_that_cannot_be_worked_with_fails_its_own_test(run, name):
    assert run.text(name).startswith(f"{run.rows[name]['location']}: ")
    assert "write" in run.text(name)


def test_skips_are_skips_and_are_listed_as_unchecked(run):
    assert {name for name, outcome in run.outcomes.items() if outcome == "skipped"} == SKIPPED
    told = [line.split(": ")[1] for line in run.summary if line.startswith("unchecked: ")]
    assert {nodeid.rpartition("::")[2] for nodeid in told} == SKIPPED | {"test_not_to_be_run"}
    assert run.rows["test_not_to_be_run"]["verdict"] == "skipped"


def test_skips_alone_leave_a_session_green(session_of):
    assert session_of(FILES, *ASKED, "-k", "skips_itself or nothing_ran", env=ALONE).status == 0


def test_a_test_without_a_limit_is_counted_as_unset_and_says_what_to_write(run):
    assert {name for name, row in run.rows.items() if row["verdict"] == "unset"} == UNSET
    # the next figure of two digits
    bare = "measured on CUDA: takes 3.25 GiB, and nothing limits it; write gib=3.3"
    assert f"unset: test_budgets.py::test_bare: {bare}" in run.summary
    assert "max_growth of 1% alone checks nothing without a base" in run.rows["test_growth_alone"]["reason"]
    assert ", 2 unset" in run.lines[-1]
    [verdict] = run.cases["test_bare"].findall("properties/property[@name='membudget.verdict']")
    assert verdict.get("value") == "unset"


def test_xfail_expects_an_exceeded_budget_and_an_error_of_the_body_and_nothing_else(run):
    assert {name for name, outcome in run.outcomes.items() if outcome == "xfailed"} == XFAILED
    expected = [line.split()[-2] for line in run.summary if line.endswith(" (expected)")]
    assert (expected.count("error"), expected.count("over")) == (1, 2)


def test_what_was_measured_over_fails_with_both_figures(run):
    row = run.rows["test_more_on_cuda"]

    assert (row["verdict"], row["rank"]) == ("over", None)
    assert "measured on CUDA: 1.00 GiB over its budget of 2 GiB" in run.message("test_more_on_cuda")
    assert [one["kind"] for one in (*row["estimates"], *row["measurements"])] == ["traced", "measured"]


def test_what_is_over_or_unchecked_already_is_not_measured(run):
    for name in OVER | UNCHECKED:
        assert run.rows[name]["measurements"] == []
    assert run.rows["test_over"]["not_measured"] == "over budget already"


def test_figures_that_disagree_are_reported(run):
    told = [line for line in run.summary if line.startswith("disagreement: ")]

    assert any("test_a_little_more_on_cuda: estimate 1.00 GiB, measured 1.25 GiB" in line for line in told)


def counts(run):
    """The summary's line of counts, part by part."""
    return next(line for line in run.summary if " estimated (" in line).split(", ")


def test_the_counts_are_of_what_they_say(run):
    # over: five, the two that xfail expects, the one that was measured over; 13 errors, one expected
    assert counts(run) == [
        "14 estimated (4 within",
        "8 over",
        "2 unset)",
        "13 without an estimate",
        "7 measured",
        "7 not measured",
        "3 unchecked",
    ]
    assert "not measured: 7 (over budget already)" in run.summary


def test_with_runxfail_nothing_is_expected(session_of):
    run = session_of(FILES, *ASKED, "--runxfail", "-k", "not_to_be_run", env=ALONE)

    assert run.outcomes == {"test_not_to_be_run": "failed"}


def test_without_measuring_the_estimate_decides(session_of):
    off = session_of(
        FILES,
        *ASKED,
        "--membudget-measure=off",
        "-k",
        "more_on_cuda or test_within and not expected and not strictly",
        env=ALONE,
    )

    assert off.status == 0
    assert "0 measured (switched off)" in counts(off)


def test_required_measuring_that_cannot_be_had_fails(session_of):
    none = given_files(ROWS, head=HEAD)
    required = session_of(
        none, *ASKED, "--membudget-measure=require", "-k", "test_within and not over", env=ALONE
    )

    assert required.outcomes == {"test_within": "failed"}
    assert "not measured: pytest_membudget.testing was given no" in required.message("test_within")
    assert counts(required)[-1].startswith("0 measured (pytest_membudget.testing was given no")


def test_a_session_that_ends_without_a_word_of_a_test_is_red(session_of):
    swallows = CONFTEST + (
        "\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_protocol(item):\n"
        "    return item.name == 'test_within' or None\n"
    )
    lost = session_of(
        {**FILES, "conftest.py": swallows}, *ASKED, "-k", "test_within and not over or nothing_ran", env=ALONE
    )

    assert lost.status == 1, lost.out
    assert any("test_within: its budget was not checked" in line for line in lost.lines)


def test_an_xdist_worker_that_ends_without_a_word_of_its_budgets_leaves_the_session_red(session_of):
    pytest.importorskip("xdist")
    forgets = CONFTEST + (
        "\n@pytest.hookimpl(trylast=True)\n"
        "def pytest_sessionfinish(session):\n"
        "    getattr(session.config, 'workeroutput', {}).pop('membudget', None)\n"
    )
    silent = session_of(
        {**FILES, "conftest.py": forgets},
        "-p",
        "xdist.plugin",
        "-n1",
        *ASKED,
        "-k",
        "test_within and not over",
        env=ALONE,
    )

    assert silent.outcomes == {"test_within": "passed"}
    assert silent.status == 1, silent.out
    assert any("an xdist worker ended without reporting its budgets" in line for line in silent.lines)


def test_a_mark_that_comes_when_the_test_runs_is_red(session_of):
    late = """
        import pytest

        @pytest.fixture
        def budget(request):
            request.node.add_marker(pytest.mark.mem_budget(gib=1))

        def test_late(budget): ...
        """
    run = session_of({**FILES, "test_budgets.py": late}, *ASKED, env=ALONE)

    assert run.outcomes == {"test_late": "failed"}
    assert "too late" in run.message("test_late")


def test_where_nothing_runs_an_xfail_mark_of_something_else_expects_no_exceeded_budget(session_of):
    """What else gates then is in ``tests/plugin/test_nothing_runs.py``."""
    asked = (*ASKED, "--collect-only", "-k", "over_and_another_expected")

    assert session_of(FILES, *asked, env=ALONE).status == 1
