"""A worker that cannot start, or cannot import a file, costs the budgets in question a clear failure each."""

import os

import pytest

GOOD = """
    import pytest
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_good():
        hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_good_too():
        hold(0.5)

    def test_plain():
        pass
    """


def test_without_torch_the_session_ends_with_what_is_missing(session_of):
    files = {"torch.py": "raise ImportError('for this test')", "test_budgets.py": GOOD}

    run = session_of(files, "--membudget", report=False)

    assert run.status == pytest.ExitCode.USAGE_ERROR
    assert "torch is not installed" in run.err


#: In workers torch cannot be imported; the path is that of Python's startup.
BROKEN = """
    import sys

    if any("pytest_membudget.worker" in argument for argument in sys.orig_argv):
        sys.modules["torch"] = None
    """


def test_where_torch_cannot_be_imported_each_budget_says_so_and_the_rest_runs(
    session_of, tmp_path, write_all
):
    write_all(tmp_path, {"sitecustomize.py": BROKEN})
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))

    run = session_of({"test_budgets.py": GOOD}, "--membudget", env={"PYTHONPATH": path})

    assert run.outcomes == {"test_good": "failed", "test_good_too": "failed", "test_plain": "passed"}, run.out
    for name in ("test_good", "test_good_too"):
        first = run.text(name).splitlines()[0]
        assert first.startswith("torch cannot be imported (ModuleNotFoundError: import of torch halted")
        assert "install torch" in first


def test_an_allocator_without_a_history_is_refused_by_its_setting(session_of):
    run = session_of(
        {"test_budgets.py": GOOD}, "--membudget", env={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    )

    assert run.outcomes == {"test_good": "failed", "test_good_too": "failed", "test_plain": "passed"}, run.out
    assert run.text("test_good").startswith("backend:cudaMallocAsync in PYTORCH_ALLOC_CONF: that allocator")


def test_a_conftest_that_fails_in_the_worker_alone_is_reported(session_of):
    files = {
        "conftest.py": """
            import torch

            if torch.cuda.is_available():
                raise RuntimeError("this conftest wants no GPU")
            """,
        "test_budgets.py": GOOD,
    }

    run = session_of(files, "--membudget")

    assert run.outcomes == {"test_good": "failed", "test_good_too": "failed", "test_plain": "passed"}
    assert run.text("test_good").startswith("the session could not be started in the worker")
    assert "RuntimeError: this conftest wants no GPU" in run.text("test_good")


FILES = {
    "test_budgets.py": GOOD,
    "test_wants_no_cuda.py": """
        import pytest
        import torch

        assert not torch.cuda.is_available(), "for CPUs alone"

        @pytest.mark.mem_budget(gib=1)
        def test_cannot_be_imported():
            pass

        def test_plain_next_to_it():
            pass
        """,
    "test_skips_itself.py": """
        import pytest
        import torch

        if torch.cuda.is_available():
            pytest.skip("for CPUs alone too", allow_module_level=True)

        @pytest.mark.mem_budget(gib=1)
        def test_skipped_there():
            pass
        """,
    "test_random.py": """
        import os

        import pytest

        @pytest.mark.mem_budget(gib=1)
        @pytest.mark.parametrize("number", [os.getpid()], ids=lambda number: f"process{number}")
        def test_of_this_process_alone(number):
            pass
        """,
}


def only(run, beginning):
    (name,) = (name for name in run.outcomes if name.startswith(beginning))
    assert run.outcomes[name] == "failed", run.out
    return run.text(name)


def test_a_file_that_cannot_be_imported_there_is_reported_with_the_error(run):
    text = only(run, "test_cannot_be_imported")

    assert "test_wants_no_cuda.py could not be collected in the worker, where CUDA is available" in text
    assert "AssertionError: for CPUs alone" in text


def test_a_file_that_skips_itself_there_is_no_pass(run):
    assert "for CPUs alone too" in only(run, "test_skipped_there")


def test_a_test_that_is_missing_in_the_worker_fails_with_the_reason(run):
    assert "its collection must not depend on the process it runs in (random parameters" in only(
        run, "test_of_this_process_alone"
    )


def test_the_other_files_are_checked(run):
    passed = {name for name, outcome in run.outcomes.items() if outcome == "passed"}

    assert passed == {"test_good", "test_good_too", "test_plain", "test_plain_next_to_it"}


def test_a_file_that_ends_the_worker_when_imported_takes_no_other_with_it(session_of):
    files = {
        "test_a_ends_it.py": """
            import os

            import pytest
            import torch

            if torch.cuda.is_available():
                print("about to leave")
                os._exit(7)

            @pytest.mark.mem_budget(gib=1)
            def test_one(): pass

            @pytest.mark.mem_budget(gib=1)
            def test_two(): pass
            """,
        "test_budgets.py": GOOD,
    }

    run = session_of(files, "--membudget", "-s")

    failed = {name for name, outcome in run.outcomes.items() if outcome == "failed"}
    assert failed == {"test_one", "test_two"}, run.out
    assert "the worker left with status 7 while importing the test files" in run.text("test_one")
    assert "about to leave" in run.text("test_two")
