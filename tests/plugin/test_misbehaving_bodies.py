"""Whatever a body does to its process, its own test says so, and the others are checked as if nothing was."""

import pytest

HEAD = """
import os
import signal
import sys
import threading
import time

import pytest
import torch


def hold(mib):
    return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")


"""
#: Seconds for each; where torch is a CUDA build the process is larger, and slower to begin.
TIMEOUT = 6
#: Body, and what its failure has to say; None if the test is within its budget of 16 MiB.
BODIES = {
    "leaves": ("os._exit(3)", "the test's process left with status 3"),
    "leaves_with_0": ("hold(8)\nos._exit(0)", "the test's process left with status 0"),
    "segfaults": ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by signal 11 (SIGSEGV)"),
    "aborts": ("os.abort()", "was ended by signal 6 (SIGABRT)"),
    "is_killed": ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by signal 9 (SIGKILL)"),
    "ends_the_worker": ("os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(9)", "signal 9 (SIGKILL)"),
    "hangs": ("hold(8)\nwhile True:\n    pass", f"it did not finish within {TIMEOUT} s"),
    "hangs_in_c": ("time.sleep(1000)", f"it did not finish within {TIMEOUT} s"),
    "sys_exit": ("hold(8)\nsys.exit(0)", "SystemExit in call at test_bodies.py:"),
    "pytest_exit": ("hold(8)\npytest.exit('enough')", "enough"),
    "interrupts": ("hold(8)\nraise KeyboardInterrupt", "KeyboardInterrupt in the test at test_bodies.py:"),
    "raises": ("hold(8)\nraise ValueError('no such layer')", "ValueError in call at test_bodies.py:"),
    "raises_without_source": (
        "made = {}\nexec('def raising(): raise ValueError(1)', made)\nmade['raising']()",
        "ValueError in call at test_bodies.py:",
    ),
    "raises_much": ("raise ValueError('line\\n' * 100)", "(and 88 lines more)"),
    "asserts": ("assert hold(8).numel() == 3", "AssertionError in call at test_bodies.py:"),
    "thread_dies": (
        "kept = hold(8)\ndef work(): raise ValueError('in a thread')\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()",
        "ValueError in a thread at test_bodies.py:",
    ),
    "failing_subtest": (
        "kept = hold(8)\nfor n in range(2):\n    with subtests.test(n=n):\n        assert n == 0",
        "AssertionError in call at test_bodies.py:",
    ),
    "forks": ("if os.fork() == 0:\n    kept = hold(15)\nkept = hold(8)", None),
    "forks_and_leaves": ("if os.fork() == 0:\n    time.sleep(60)\nos._exit(4)", "left with status 4"),
    "forks_and_waits": (
        "pid = os.fork()\nif pid == 0:\n    os._exit(5)\n"
        "assert os.waitpid(pid, 0)[1] == 5 << 8\nkept = hold(8)",
        None,
    ),
    "keeps_threads": (
        "threading.Thread(target=time.sleep, args=(60,)).start()\nkept = hold(8)",
        None,
    ),
    "skips_a_subtest": (
        "with subtests.test():\n    pytest.skip('not this')\nkept = hold(8)",
        None,
    ),
    "prints_much": ("print('x' * 10 * 2**20)\nos.write(2, b'y' * 2**20)\nkept = hold(8)", None),
    "closes_its_output": ("sys.stdout.close()\nkept = hold(8)", None),
    "closes_its_descriptors": ("os.close(1)\nkept = hold(8)", None),
    # it ends by itself, or is ended if that takes it long
    "closes_all_descriptors": (
        "os.closerange(3, 256)\nkept = hold(8)",
        ("left with status 1", "has closed the pipe"),
    ),
    "closes_all_and_hangs": (
        "os.closerange(3, 256)\ntime.sleep(60)",
        "has closed the pipe of its answer; let it",
    ),
    "goes_elsewhere": ("os.chdir('/')\nkept = hold(8)", None),
    "forgets_the_environment": (
        "for name in list(os.environ):\n    if name != 'PYTEST_CURRENT_TEST':\n        del os.environ[name]\n"
        "kept = hold(8)",
        None,
    ),
    "changes_torch": ("torch.cuda.is_available = None\nkept = torch.zeros(2**21, device='cuda')", None),
    "catches_signals": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nkept = hold(8)", None),
    "last": ("assert os.path.exists('test_bodies.py')\nassert 'HOME' in os.environ\nkept = hold(8)", None),
}
SUBTESTS = {"failing_subtest", "skips_a_subtest"}


def source():
    parts = [HEAD]
    for name, (body, _) in BODIES.items():
        arguments = "subtests" if name in SUBTESTS else ""
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        parts.append(f"@pytest.mark.mem_budget(gib=16 / 1024)\ndef test_{name}({arguments}):\n{lines}\n\n")
    return "".join(parts)


@pytest.fixture(scope="module")
def run(session_of):
    files = {"test_bodies.py": source(), "pyproject.toml": f"[tool.membudget]\ntimeout = {TIMEOUT}\n"}
    return session_of(files, "--membudget", "-o", "faulthandler_timeout=1", "-s")


@pytest.mark.parametrize("name", [name for name, (_, said) in BODIES.items() if said is not None])
def test_the_failure_says_what_became_of_it(run, name):
    if name in SUBTESTS and not hasattr(pytest, "Subtests"):
        pytest.skip("this pytest has no subtests")
    assert run.outcomes[f"test_{name}"] == "failed", run.out
    said = BODIES[name][1]
    text = run.text(f"test_{name}")
    assert any(part in text for part in ((said,) if isinstance(said, str) else said)), text
    assert run.rows[f"test_{name}"]["verdict"] == "error"


@pytest.mark.parametrize("name", [name for name, (_, said) in BODIES.items() if said is None])
def test_what_does_no_harm_is_estimated(run, name):
    if name in SUBTESTS and not hasattr(pytest, "Subtests"):
        pytest.skip("this pytest has no subtests")
    assert run.outcomes[f"test_{name}"] == "passed", run.text(f"test_{name}")
    assert run.allocated(f"test_{name}") == 8 * 2**20


@pytest.mark.parametrize(("name", "statement"), [("hangs", "pass"), ("hangs_in_c", "time.sleep(1000)")])
def test_a_hang_is_reported_with_the_limit_and_the_line(run, name, statement):
    lines = (run.folder / "test_bodies.py").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text == f"def test_{name}():")
    inside = range(line + 1, line + len(BODIES[name][0].splitlines()) + 1)

    text = run.text(f"test_{name}")

    assert "[tool.membudget] timeout" in text
    assert any(f'test_bodies.py", line {number} in test_{name}' in text for number in inside), text
    assert "_pytest" not in text


def test_no_other_test_is_touched(run):
    assert run.status == 1
    assert len(run.rows) == len(BODIES)
    assert "INTERNALERROR" not in run.out
