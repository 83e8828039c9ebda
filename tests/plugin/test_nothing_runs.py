"""--collect-only and the like: no test runs, and the estimates gate all the same."""

import pytest

FILES = {
    "test_over.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_over():
            hold(2)

        def test_plain():
            raise AssertionError
        """,
    "test_within.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_within():
            hold(0.5)

        @pytest.mark.xfail
        @pytest.mark.mem_budget(gib=1)
        def test_expected():
            hold(2)

        @pytest.mark.skipif(True, reason="needs CUDA")
        @pytest.mark.mem_budget(gib=1)
        def test_guarded():
            hold(2)
        """,
    "test_malformed.py": """
        import pytest

        @pytest.mark.mem_budget(gib=0)  # which needs no worker
        def test_malformed():
            pass
        """,
    "test_unchecked.py": """
        import pytest

        @pytest.mark.xfail
        @pytest.mark.mem_budget(gib=1)
        def test_nothing_on_cuda():
            pass
        """,
}


@pytest.fixture(scope="module")
def gated(session_of):
    return session_of(FILES, "--membudget", "--collect-only")


def test_collect_only_fails_with_the_table_and_the_reasons(gated):
    assert gated.status == 1
    assert "1.00 GiB over its budget of 1 GiB" in gated.lines
    assert any(line.startswith("the test allocated nothing on cuda") for line in gated.lines)
    assert "3 estimated (1 within, 2 over), 2 without an estimate" in gated.summary[-2]


def test_the_report_is_written_without_a_run(gated):
    assert {name: row["verdict"] for name, row in gated.rows.items()} == {
        "test_over": "over",
        "test_within": "within",
        "test_expected": "over",
        "test_guarded": "skipped",
        "test_nothing_on_cuda": "error",
        "test_malformed": "error",
    }


def test_collect_only_passes_if_all_are_within(gated, again):
    run = again(gated, "--membudget", "--collect-only", "-q", "test_within.py")

    assert run.status == 0


@pytest.mark.parametrize(
    "way",
    [("--collect-only", "-n2"), ("--setup-plan",), ("--setup-only", "-n2")],
    ids=" ".join,
)
def test_a_run_without_calls_gates_too(gated, again, way):
    if "-n2" in way:
        pytest.importorskip("xdist")
    run = again(gated, "--membudget", "test_malformed.py", *way)

    assert run.status == 1
    assert any("mem_budget(gib=0): write a finite number" in line for line in run.lines)


def test_setup_show_shows_the_verdicts(gated, again):
    run = again(gated, "--membudget", "--setup-show", "test_malformed.py")

    assert run.outcomes == {"test_malformed": "failed"}


@pytest.mark.parametrize("question", ["--fixtures", "--fixtures-per-test"])
def test_questions_about_fixtures_estimate_nothing(gated, again, question):
    run = again(gated, "--membudget", question, "test_over.py")

    assert run.status == 0
    assert "estimating" not in run.out
