"""What a test's figure rests on, or does not have in it, is in its report."""

import pytest

from tests.report_fixtures import caveat_texts

FILES = {
    "test_budgets.py": """
        import multiprocessing, subprocess, sys
        import pytest, torch

        def hold(mib):
            return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")

        @pytest.mark.mem_budget(gib=80, gpu="RTX-4090")
        def test_smaller_batch():
            try:
                hold(40 * 2**10)
            except torch.OutOfMemoryError:
                hold(8)

        @pytest.mark.mem_budget(gib=80)
        def test_process():
            hold(8)
            subprocess.run([sys.executable, "-c", ""], check=True)

        @pytest.mark.mem_budget(gib=80)
        @pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
        def test_multiprocessing(method):
            hold(8)
            multiprocessing.get_context(method).Process(target=int).start()

        @pytest.mark.mem_budget(gib=80)
        def test_plain():
            hold(8)
        """,
}


@pytest.fixture(scope="module")
def report_of(session_of):
    run = session_of(FILES, "--membudget")
    assert set(run.outcomes.values()) == {"passed"}, run.out

    def report_of(name):
        (report,) = run.rows[name]["estimates"]
        return report

    return report_of


def test_out_of_memory_that_the_body_catches(report_of):
    report = report_of("test_smaller_batch")

    assert report["peak"]["allocated"] == 8 * 2**20
    assert any(line.startswith("out of memory (once), after which") for line in caveat_texts(report))


def test_a_process_that_the_body_starts(report_of):
    (line,) = caveat_texts(report_of("test_process"), missing=True)

    assert line.startswith("test_budgets.py:17: a process is started (")
    assert line.endswith("what it allocates is not counted")


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_of_multiprocessing(report_of, method):
    """No audit event says that one is spawned."""
    (line,) = caveat_texts(report_of(f"test_multiprocessing[{method}]"), missing=True)

    assert line.startswith("test_budgets.py:23: a process is started")


def test_nothing_is_said_of_others(report_of):
    assert caveat_texts(report_of("test_plain")) == []
    assert caveat_texts(report_of("test_plain"), missing=True) == []
