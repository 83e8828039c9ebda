"""Tests that are estimated without a mark: ``--membudget=all`` and ``[tool.membudget] tests``."""

import pytest

from pytest_membudget.gate.selection import lists_removed

GIVEN = ("-p", "pytest_membudget.testing")
FILES = {
    "conftest.py": """
        from pytest_membudget.testing import GivenEstimates, error, raises, takes

        def pytest_membudget_estimates():
            return GivenEstimates({
                "train/test_steps.py::test_gpu[a[0]]": takes(1),
                "train/test_steps.py::test_cpu": takes(0),
                "train/test_steps.py::test_raises": raises("ValueError: no"),
                "train/test_steps.py::test_lost": error("the worker was killed"),
                "train/test_steps.py::test_marked": takes(3),
                "train/test_steps.py::test_marked_and_cpu": takes(0),
                "train/deep/test_more.py::test_more": takes(2),
                "test_guards.py::test_needs_cuda": takes(1),
                "test_guards.py::test_not_expected_to_run": takes(1),
            })
        """,
    "train/test_steps.py": """
        import pytest

        @pytest.mark.parametrize("word", ["a[0]"])
        def test_gpu(word): ...

        def test_cpu(): ...
        def test_raises(): ...
        def test_lost(): ...

        @pytest.mark.mem_budget(gib=2)
        def test_marked(): ...

        @pytest.mark.mem_budget(gib=2)
        def test_marked_and_cpu(): ...
        """,
    "train/deep/test_more.py": "def test_more(): ...",
    "test_other.py": "def test_other(): ...",
    "test_guards.py": """
        import pytest

        @pytest.mark.mem_budget(gib=2)
        @pytest.mark.skipif("True", reason="no CUDA")
        def test_needs_cuda(): ...

        @pytest.mark.mem_budget(gib=2)
        @pytest.mark.xfail(run=False)
        def test_not_expected_to_run(): ...
        """,
    "test_module.py": "import pytest; pytest.skip('no CUDA', allow_module_level=True)",
}


def settings(text):
    return {**FILES, "pyproject.toml": f"[tool.membudget]\n{text}"}


@pytest.fixture(scope="module")
def everything(session_of):
    return session_of(FILES, "--membudget=all", *GIVEN)


def test_all_tests_without_a_mark_are_estimated(everything):
    verdicts = {name: row["verdict"] for name, row in everything.rows.items()}

    assert verdicts["test_gpu[a[0]]"] == verdicts["test_more"] == "unset"
    assert {name for name, verdict in verdicts.items() if verdict == "error"} == {
        *("test_raises", "test_lost", "test_other", "test_marked_and_cpu")
    }
    assert verdicts["test_marked"] == "over"


def test_a_test_that_takes_no_gpu_memory_is_counted_and_not_green(everything):
    assert everything.outcomes["test_cpu"] == "skipped"
    assert everything.message("test_cpu") == "takes no GPU memory"
    assert "test_cpu" not in everything.rows
    assert "1 test without a mark takes no GPU memory: skipped" in everything.summary


def test_a_file_that_skips_itself_is_reported(everything):
    assert any(
        "unchecked: test_module.py: skipped when it was imported" in line for line in everything.summary
    )


def test_patterns_select_folders_node_ids_and_files(session_of):
    patterns = '["train/deep", "train/test_steps.py::test_g*[a[0]]", "*::test_lost", "test_guards.py"]'
    run = session_of(settings(f"tests = {patterns}"), "--membudget", *GIVEN)

    marked = {"test_marked", "test_marked_and_cpu", "test_needs_cuda", "test_not_expected_to_run"}
    assert run.rows.keys() - marked == {"test_more", "test_gpu[a[0]]", "test_lost"}
    assert run.outcomes["test_other"] == "passed"


def test_a_pattern_that_matches_nothing_is_red(session_of):
    pytest.importorskip("xdist")
    files = {**settings('tests = ["trian/*", "train/*"]'), "train/test_steps.py": "def test_cpu(): ..."}
    args = ("--membudget", *GIVEN, "-n2", "--ignore=test_guards.py")
    run = session_of(files, *args)

    assert run.status == 1
    [line] = [line for line in run.summary if "matches no test" in line]
    assert line.startswith("[tool.membudget] tests: 'trian/*' matches no test; write the path of a file")
    assert session_of(files, *args, "train").status == 0  # other tests were not collected


def test_settings_select_nothing_without_the_flag(session_of):
    run = session_of({**settings('tests = ["train/*"]'), "conftest.py": ""}, report=False)

    assert run.outcomes["test_cpu"] == "passed"
    assert run.outcomes["test_marked"] == "skipped"


def test_lifted_guards_skip_nothing_that_the_worker_runs(session_of):
    pytest.importorskip("xdist")
    files = {**settings("lift_cuda_skips = true"), "train/test_steps.py": ""}
    run = session_of(files, "--membudget", *GIVEN, "-n2")

    assert run.outcomes["test_needs_cuda"] == "passed"
    assert run.rows["test_needs_cuda"]["verdict"] == "within"
    assert run.rows["test_not_expected_to_run"]["verdict"] == "skipped"


def test_guards_are_not_lifted_unasked(session_of):
    run = session_of(FILES, "--membudget", *GIVEN, "-k", "needs_cuda")

    assert run.outcomes["test_needs_cuda"] == "skipped"
    assert any(
        "test_needs_cuda: skipped" in line and "or set lift_cuda_skips" in line for line in run.summary
    )


@pytest.mark.parametrize(
    ("args", "lists"), [((), True), (("-k", "a"), True), (("test_a.py::test_b",), False), (("--lf",), False)]
)
def test_what_names_single_tests_does_not_say_which_were_removed(pytester, args, lists):
    pytester.makepyfile(test_a="def test_b(): ...")

    assert lists_removed(pytester.parseconfig(*args)) is lists
