"""Work that a test leaves to threads, and cards that it looks for by itself: named, and red under strict."""

import pytest

BODIES = """
    import os
    import shutil
    import subprocess
    import threading
    import time
    from concurrent.futures import ThreadPoolExecutor

    import pytest
    from holding import hold

    budget = pytest.mark.mem_budget(gib=1)
    POOL = ThreadPoolExecutor()

    @budget
    def test_thread():
        kept = hold(0.1)
        threading.Timer(0.5, lambda: hold(0.2)).start()

    @budget
    def test_thread_that_is_joined():
        thread = threading.Thread(target=hold, args=(0.1,))
        thread.start()
        thread.join()

    @budget
    def test_pool_that_waits():
        kept = hold(0.1)
        list(POOL.map(abs, range(4)))
        time.sleep(0.2)

    @budget
    def test_device_file():
        kept = hold(0.2 if os.path.exists("/dev/nvidia0") else 0.1)

    @budget
    def test_tool():
        kept = hold(0.2 if shutil.which("nvidia-smi") else 0.1)

    @budget
    def test_tool_that_is_run():
        kept = hold(0.1)
        try:
            subprocess.run(["nvidia-smi", "-L"])
        except FileNotFoundError:
            pass

    @budget
    def test_process_of_a_function_that_is_not_compiled():
        import torch

        kept = hold(0.1)
        torch.compiler.disable(lambda: subprocess.run(["true"]))()

    @budget
    def test_other_tool():
        kept = hold(0.2 if shutil.which("git") and os.path.exists("/dev/null") else 0.1)
    """
KINDS = {
    "thread": {"thread"},
    "thread_that_is_joined": set(),
    "pool_that_waits": set(),
    "device_file": {"card-sought"},
    "tool": {"card-sought"},
    "tool_that_is_run": {"card-sought"},
    "process_of_a_function_that_is_not_compiled": {"process"},
    "other_tool": set(),
}


FILES = {"test_budgets.py": BODIES}
ARGS = ("--membudget", "--membudget-strict")


@pytest.mark.parametrize("name", KINDS)
def test_each_is_named_and_fails_under_strict(run, name):
    [estimate] = run.rows[f"test_{name}"]["estimates"]

    assert {one["cause"] for one in estimate["caveats"]} == KINDS[name]
    assert run.outcomes[f"test_{name}"] == ("failed" if KINDS[name] else "passed"), run.text(f"test_{name}")


def test_the_failure_says_what_and_what_to_do(run):
    assert "Timer Thread-" in run.text("test_thread")
    assert "join the thread before the test's body ends" in run.text("test_thread")
    assert "test_budgets.py:33: looks for nvidia0, which a machine with a card has" in run.text(
        "test_device_file"
    )
    assert "ask torch: torch.cuda.is_available()" in run.text("test_tool")
