"""The time limit of a test: of a processor's time, so that a busy machine ends no test that goes on."""

import re

import pytest

#: Seconds.
LIMIT = 2
BODIES = """
    import subprocess
    import sys
    import threading
    import time

    import pytest
    import torch
    from holding import hold
    from seconds import LONG

    def work(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    @pytest.mark.mem_budget(gib=1)
    def test_has_a_fifth_of_a_processor():
        kept = hold(0.5)
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            work(0.1)
            time.sleep(0.4)

    @pytest.mark.mem_budget(gib=1)
    def test_waits_for_its_compile_workers():
        kept = hold(0.5)
        program = "import time\\nend = time.monotonic() + float(sys.argv[1])\\n" \\
            "while time.monotonic() < end:\\n    sum(range(3_000_000))\\n    time.sleep(0.3)"
        subprocess.run([sys.executable, "-c", "import sys\\n" + program, str(LONG)], start_new_session=True)

    @pytest.mark.mem_budget(gib=1)
    def test_locks_itself_out():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    @pytest.mark.mem_budget(gib=1)
    def test_polls():
        while not sys.argv == []:
            time.sleep(0.05)

    @pytest.mark.mem_budget(gib=1)
    def test_works_for_ever():
        while True:
            pass

    @pytest.mark.mem_budget(gib=1)
    def test_reads_until_another_end():
        token = torch.randn(8, device="cuda").argmax()
        while token.item() != 7:
            pass

    @pytest.mark.mem_budget(gib=1)
    def test_hangs_where_a_truth_is_turned():
        while (torch.randn(8, device="cuda") > 0).all():
            while True:
                pass

    @pytest.mark.mem_budget(gib=1)
    def test_hangs_in_c():
        time.sleep(1000)
    """
#: What a body takes that has a fifth of a processor, as on a busy machine: more than the limit, in seconds.
SECONDS = f"LONG = {LIMIT + 2}\n"
#: What is said of each, and the statements of which one is running.
FOR_EVER = {
    "test_locks_itself_out": ("of processor time in them: it waits", ["lock.acquire()"]),
    "test_polls": ("of processor time in them: it waits", ["while not sys.argv == []:", "time.sleep(0.05)"]),
    "test_works_for_ever": (f"it did not finish within {LIMIT} s of processor time", ["while True:", "pass"]),
    "test_hangs_in_c": ("of processor time in them: it waits", ["time.sleep(1000)"]),
}


FILES = {
    "test_bodies.py": BODIES,
    "seconds.py": SECONDS,
    "forever.py": "while True:\n    pass\n",
    "f.membudget.yaml": "budgets: [{name: forever, gib: 1, script: forever.py}]\n",
    "pyproject.toml": f"[tool.membudget]\ntimeout = {LIMIT}\n",
}


@pytest.mark.parametrize("name", ["test_has_a_fifth_of_a_processor", "test_waits_for_its_compile_workers"])
def test_what_goes_on_is_not_ended(run, name):
    assert run.outcomes[name] == "passed", run.text(name)
    assert run.allocated(name) == 2**29


@pytest.mark.parametrize("name", FOR_EVER)
def test_what_does_not_is_ended_with_the_limit_and_the_line(run, name):
    said, statements = FOR_EVER[name]
    text, lines = run.text(name), (run.folder / "test_bodies.py").read_text().splitlines()
    numbers = [n for n, line in enumerate(lines, 1) if line.strip() in statements]

    assert run.outcomes[name] == "failed"
    assert f"it did not finish within {LIMIT} s" in text
    assert said in text
    assert "the time limit is [tool.membudget] timeout" in text
    assert any(f'test_bodies.py", line {number} in {name}' in text for number in numbers), text
    assert "_pytest" not in text


def test_an_endless_program_ends_at_it_too(run):
    assert run.outcomes["forever"] == "failed"
    assert "forever.py:" in run.text("forever")


def test_a_loop_names_the_reads_that_it_made(run):
    text = run.text("test_reads_until_another_end").replace("\n  ", " ")

    assert re.search(r"test_bodies.py:\d+ reads an int64 value \([\d,]+ times\): taken to be 1, 4", text), (
        text
    )


def test_a_test_without_an_end_for_other_answers_is_not_checked(run):
    [figure] = run.rows["test_hangs_where_a_truth_is_turned"]["estimates"]

    [caveat] = figure["caveats"]
    assert (caveat["cause"], caveat["kind"]) == ("depends", "unchecked")
    assert "; with other answers the test has no figure: it did not finish within 2 s" in caveat["text"]
