"""``--membudget-strict``, in whole sessions with given estimates: what is not checked fails."""

import pytest

from tests.gate.given import ALONE, ASKED, XDIST, given_files

TWO = "mem_budget(gib=2)"
#: Green without the option: what each test takes, and its marks.
NOT_CHECKED = {
    "test_size": ('takes(1, caveats=[Caveat(SIZE_READ, "a.py:2 reads an int64 value")])', TWO),
    "test_library": ('takes(1, caveats=[Caveat(LIBRARY, "cusolverDnSpotrf")])', TWO),
    "test_size_and_expected": (
        'takes(1, caveats=[Caveat(SIZE_READ, "a.py:3 reads an int64 value")])', "xfail", TWO
    ),
    "test_raises_and_expected": ('raises("ValueError: no")', "xfail", TWO),
    "test_skips_itself": ('skips("too slow")', TWO),
    "test_skip": ("", 'skip(reason="later")', TWO),
    "test_skipif": ("", 'skipif("True", reason="as text")', TWO),
    "test_not_run": ("", "xfail(run=False)", TWO),
    "test_growth_alone": ("takes(1)", 'mem_budget(max_growth="1%")'),
    "test_bare": ("takes(1)", "mem_budget"),
    "test_excused_too_low": ('takes(1, caveats=[Caveat(LIBRARY, "cufftXtMakePlanMany")])', TWO),
}  # fmt: skip
OTHERS = {
    "test_plain": ("takes(1)", TWO),
    "test_method": ('takes(1, caveats=[Caveat(HOW, "compiled")])', TWO),
    "test_read": ('takes(1, caveats=[Caveat(READ, "a.py:1 reads a float32 value")])', TWO),
    "test_over": ('takes(3, caveats=[Caveat(LIBRARY, "cusolverDnSpotrf")])', TWO),
    "test_over_and_expected": ('takes(3, caveats=[Caveat(LIBRARY, "cusolverDnSpotrf")])', "xfail", TWO),
    "test_excused_skip": ("", 'skip(reason="excused")', TWO),
    "test_excused": ('takes(1, caveats=[Caveat(LIBRARY, "cufftXtMakePlanMany")])', TWO),
    "test_measured": ('takes(1, caveats=[Caveat(LIBRARY, "cusolverDnSpotrf")])', TWO),
    "test_without_a_budget": ("", "skip"),
}
FILES = {
    **given_files(NOT_CHECKED | OTHERS, {"test_measured": "takes(1)"}),
    "test_file.py": """
        import pytest

        pytest.importorskip("a_module_that_nobody_has")

        @pytest.mark.mem_budget(gib=1)
        def test_in_it(): ...
        """,
    "membudget.lock.yaml": """
        version: 1
        tests:
          test_budgets.py::test_excused: {bytes: 1073741824, reason: soon, until: 2999-12-31}
          test_budgets.py::test_excused_skip: {bytes: 1073741824, reason: soon, until: 2999-12-31}
          test_budgets.py::test_excused_too_low: {bytes: 536870912, reason: soon, until: 2999-12-31}
        """,
}
OVER = {"test_over"}
MARKED = {"test_read", "test_size", "test_library", "test_excused", "test_excused_too_low"}


def failed(run):
    return {name for name, outcome in run.outcomes.items() if outcome == "failed"}


@pytest.fixture(scope="module")
def lenient(session_of):
    return session_of(FILES, *ASKED, "-v", env=ALONE)  # all rows of the table


@pytest.fixture(scope="module", params=["alone", "-n2", "reruns"])
def run(request, session_of):
    more = {"-n2": XDIST, "reruns": ("-p", "pytest_rerunfailures")}.get(request.param, ())
    return session_of(FILES, *ASKED, "--membudget-strict", *more, env=ALONE)


def test_without_it_only_what_is_over_fails(lenient):
    assert failed(lenient) == OVER


def test_without_it_what_rests_on_something_is_marked(lenient):
    marked = {line.split()[0] for line in lenient.summary if "  within *" in line}

    assert {name.rpartition("::")[2] for name in marked} == MARKED | {"test_size_and_expected"}
    [legend] = [line for line in lenient.summary if line.startswith("* data assumed")]
    assert legend.endswith("--membudget-strict fails 5 of these 6")  # with one that was expected to fail


def test_with_it_what_was_not_checked_fails(run):
    assert failed(run) == NOT_CHECKED.keys() | OVER, run.out
    assert run.status == 1


def test_what_is_excused_stays_so(run):
    assert run.outcomes["test_excused"] == "passed"
    assert run.outcomes["test_excused_skip"] == "skipped"
    assert run.outcomes["test_measured"] == "passed"
    assert run.outcomes["test_without_a_budget"] == "skipped"
    assert run.rows["test_excused"]["lock"]["allowed"] is True


def test_the_failure_says_what_was_not_checked_and_what_to_do(run):
    text = run.text("test_size")

    assert text.startswith("--membudget-strict: not checked: a.py:2 reads an int64 value\n")
    assert "pytest_membudget.assume(value=...)" in text
    assert "give the test an entry in membudget.lock.yaml" in text
    assert "strict = true" in text


def test_the_skip_says_so_at_its_mark(run):
    assert run.message("test_skip").startswith("BudgetUnchecked: --membudget-strict: not checked: skipped")


def test_a_file_that_skips_itself_fails_the_session(run):
    [row] = [row for row in run.report["tests"] if row["nodeid"] == "test_file.py"]

    assert (row["verdict"], row["without_strict"]) == ("error", "skipped")
    assert any(line.startswith("test_file.py") and "error" in line for line in run.summary)


def test_the_report_has_the_verdict_without_it(run):
    assert run.rows["test_size"]["without_strict"] == "within"
    assert run.rows["test_plain"]["without_strict"] is None


def test_a_file_that_skips_itself_alone_is_red(session_of):
    files = {"test_file.py": FILES["test_file.py"], "conftest.py": FILES["conftest.py"]}

    assert session_of(files, *ASKED, env=ALONE).status in (0, 5)
    assert session_of(files, *ASKED, "--membudget-strict", env=ALONE).status == 1


def test_the_setting_and_collect_only(session_of):
    table = "[tool.membudget]\nstrict = true\n"
    run = session_of({**FILES, "pyproject.toml": table}, *ASKED, "--collect-only", env=ALONE)

    verdicts = {row["nodeid"].partition("::")[2]: row["verdict"] for row in run.report["tests"]}
    assert run.status == 1
    assert {name for name, verdict in verdicts.items() if verdict == "error" and name} >= NOT_CHECKED.keys()
    assert "what to do" in run.out
