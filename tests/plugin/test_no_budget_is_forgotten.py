"""Ways in which a budget could turn green without having been checked; none of them does."""

import pytest

#: A budget that fails without a worker.
MALFORMED = """
    import pytest

    def test_first():
        pass

    @pytest.mark.mem_budget(gib=0)
    def test_malformed():
        pass
    """


def test_a_session_that_ends_itself_early_with_0_is_not_green(session_of):
    body = MALFORMED.replace(
        "def test_first():\n        pass", "def test_first():\n        pytest.exit('bye', 0)"
    )

    run = session_of({"test_budgets.py": body}, "--membudget")

    assert run.status == 1
    assert any(
        line.startswith("test_budgets.py::test_malformed: its budget was not checked") for line in run.lines
    )


ADDED = {
    "conftest.py": """
        import pytest
        from holding import hold

        def body(gib):
            def test_body():
                kept = hold(gib)
            return test_body

        class File(pytest.Module):
            def collect(self):
                for gib, budget in ((1, 2), (3, 2)):
                    item = pytest.Function.from_parent(self, name="test_same", callobj=body(gib))
                    item.add_marker(pytest.mark.mem_budget(gib=budget))
                    yield item

        def pytest_pycollect_makemodule(module_path, parent):
            if module_path.name == "test_same.py":
                return File.from_parent(parent, path=module_path)

        def pytest_collection_modifyitems(items):
            for item in list(items):
                if item.name == "test_marked_by_a_hook":
                    item.add_marker(pytest.mark.mem_budget(gib=1))
                if item.name == "test_twice":
                    twin = pytest.Function.from_parent(item.parent, name=item.name)
                    twin.add_marker(pytest.mark.mem_budget(gib=4), append=False)
                    items.append(twin)
        """,
    "test_same.py": "",
    "test_budgets.py": """
        import pytest
        from holding import hold

        def test_marked_by_a_hook():
            kept = hold(2)

        @pytest.mark.mem_budget(gib=1)
        def test_twice():
            kept = hold(2)
        """,
}


@pytest.fixture(scope="module")
def added(session_of):
    """A session with tests and marks that hooks have made."""
    return session_of(ADDED, "--membudget", "-v")


def test_a_mark_that_a_hook_adds_counts_and_is_placed_at_the_test(added):
    assert added.outcomes["test_marked_by_a_hook"] == "failed"
    assert added.rows["test_marked_by_a_hook"]["location"].endswith(":4")


def outcomes(run, beginning):
    """What the lines of a verbose run say, where several tests have one name."""
    words = [line.split() for line in run.lines if line.startswith(beginning)]
    return sorted(line[1] for line in words if line[1] in ("FAILED", "PASSED"))


def test_two_tests_of_one_name_are_not_taken_for_each_other(added):
    assert outcomes(added, "test_same.py::") == ["FAILED", "FAILED"]
    assert "several tests have this name" in added.text("test_same")


def test_the_same_test_twice_has_the_budget_of_each_of_its_marks(added):
    assert outcomes(added, "test_budgets.py::test_twice") == ["FAILED", "PASSED"]


def test_a_collection_error_leaves_the_session_red(session_of, again):
    files = {"test_broken.py": "raise RuntimeError", "test_budgets.py": MALFORMED}

    run = session_of(files, "--membudget", "--continue-on-collection-errors")
    strict = again(run, "--membudget")

    assert run.status == 1
    assert run.outcomes["test_malformed"] == "failed"
    assert strict.status == 2
    assert "estimating" not in strict.out
    assert any(line.endswith("1 not run") for line in strict.summary)


def test_a_failing_hook_is_an_error_and_no_skip(session_of, both_ways):
    files = {
        "inner/conftest.py": "def pytest_runtest_setup(item): raise RuntimeError('no such machine')",
        "inner/test_budgets.py": MALFORMED,
    }

    run = session_of(files, "--membudget", *both_ways)

    assert run.outcomes["test_malformed"] == "error"
    assert "no such machine" in run.rows["test_malformed"]["reason"]
    assert run.rows["test_malformed"]["verdict"] == "error"


def test_an_xdist_worker_that_is_lost_leaves_the_session_red(session_of):
    pytest.importorskip("xdist")
    files = {
        "inner/conftest.py": """
            import os

            def pytest_runtest_setup(item):
                os._exit(0)
            """,
        "inner/test_budgets.py": MALFORMED,
    }

    run = session_of(files, "--membudget", "-n1", "--max-worker-restart=0")

    assert run.status == 1, run.out


SLOW_START = """
    import time

    import pytest
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_small():
        kept = hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    def test_over():
        kept = hold(2)
    """


def test_an_interrupted_estimate_is_not_answered_to_the_next_test(session_of):
    """An alarm of the user's own, while the first test of a session with xdist is estimated."""
    pytest.importorskip("xdist")
    files = {
        "conftest.py": """
            import signal

            import pytest

            def interrupt(number, frame):
                raise RuntimeError("interrupted by an alarm")

            @pytest.hookimpl(wrapper=True, tryfirst=True)
            def pytest_runtest_setup(item):
                if item.name == "test_small" and hasattr(item.config, "workerinput"):
                    signal.signal(signal.SIGALRM, interrupt)
                    signal.setitimer(signal.ITIMER_REAL, 3.5)
                try:
                    return (yield)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            """,
        "test_budgets.py": SLOW_START.replace("kept = hold(0.5)", "time.sleep(20)"),
    }

    run = session_of(files, "--membudget", "-n1")

    assert run.outcomes == {"test_small": "failed", "test_over": "failed"}, run.out
    assert "interrupted by an alarm" in run.text("test_small")
    assert run.message("test_over") == "BudgetExceeded: 1.00 GiB over its budget of 1 GiB"


def test_a_budget_that_exists_only_where_cuda_is_fails_the_session(session_of, tmp_path):
    """Nothing is cached of its file: else the next session would not see it."""
    pytest.importorskip("xdist")
    files = {
        "test_budgets.py": """
            import pytest, torch

            DEVICES = ["cuda", "cuda:0"] if torch.cuda.is_available() else []

            @pytest.mark.mem_budget(gib=1)
            def test_checked():
                kept = torch.empty(2**20, device="cuda")

            if torch.cuda.is_available():
                @pytest.mark.mem_budget(gib=1)
                def test_guarded():
                    kept = torch.empty(2**30, device="cuda")

                def test_without_a_budget():
                    pass

            @pytest.mark.mem_budget(gib=1)
            @pytest.mark.parametrize("device", ["meta", *DEVICES])
            def test_devices(device):
                kept = torch.empty(2**20, device="cuda")
            """
    }
    kept = {"MEMBUDGET_CACHE_DIR": str(tmp_path / "kept")}

    for way in ((), ("-n2",)):
        run = session_of(files, "--membudget", *way, env=kept)

        assert set(run.outcomes.values()) == {"passed"}, run.out
        assert run.status == 1
        unchecked = [line.partition(": its budget")[0] for line in run.lines if "exists only where" in line]
        devices = "test_budgets.py::test_devices[cuda:0] and 1 more of its parameters"
        assert unchecked == [devices, "test_budgets.py::test_guarded"]

    single = session_of(files, "--membudget", "test_budgets.py::test_checked", "-n2", env=kept)

    assert single.status == 0


def test_files_whose_budgets_all_exist_only_where_cuda_is_are_named_in_a_session_that_fails(session_of):
    """Else the session fails, as above."""
    files = {
        "test_budgets.py": """
            import pytest, torch

            if torch.cuda.is_available():
                @pytest.mark.mem_budget(gib=1)
                def test_guarded():
                    kept = torch.empty(2**30, device="cuda")
            """,
        "helpers.py": """
            import torch

            HAS_GPU = torch.cuda.is_available()
            """,
        "test_conditions.py": """
            import pytest
            from helpers import HAS_GPU

            if HAS_GPU:
                @pytest.mark.mem_budget(gib=1)
                def test_by_a_helper():
                    pass
            """,
        "test_words.py": """
            def test_words():
                assert "cuda" == "mem_budget"
            """,
    }

    run = session_of(files, "--membudget")

    assert run.outcomes == {"test_words": "failed"}, run.out
    assert run.status == 1
    unchecked = [line.partition(": its budget")[0] for line in run.lines if "exists only where" in line]
    assert unchecked == ["test_budgets.py::test_guarded", "test_conditions.py::test_by_a_helper"]
