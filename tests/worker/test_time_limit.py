"""A time limit counts the processor time of a process and of what it has started, not the clock."""

import os
import subprocess
import sys
import time

import pytest

from pytest_membudget.worker.time_limit import LONGEST, Overrun, Watch, usage

#: A program that uses 0.6 s of processor time in a process of a process of its own session, and stays.
COMPILES = """
import subprocess, sys, time
burn = "import sys, time\\nwhile time.process_time() < 0.6: pass\\nsys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", burn], start_new_session=True, stdin=subprocess.PIPE)
time.sleep(60)
"""
#: The same in a process that has ended and was waited for.
COMPILED = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.6: pass"])
time.sleep(60)
"""


def overrun(limit, share, seconds, threads=1, wants=0):
    """When a process is over its ``limit`` that has ``share`` of a processor, and ``threads`` of them.

    It is seen to want a processor at ``wants`` of ten looks.
    """
    watch = Watch(0, limit, began=0.0)
    for now in range(1, seconds + 1):
        found = watch.check(now, now * share * threads, now % 10 < wants)
        if found is not None:
            return now, found
    return None


@pytest.fixture
def start():
    """``start(program)`` runs it in Python."""
    processes = []

    def run(program):
        processes.append(subprocess.Popen([sys.executable, "-c", program], start_new_session=True))
        return processes[-1].pid

    yield run
    for process in processes:
        process.kill()
        process.wait()


def test_on_a_quiet_machine_it_ends_with_the_clock():
    now, found = overrun(limit=300, share=1.0, seconds=400)

    # the first second is the one before the first look
    assert now == 301
    assert found == Overrun(300, 300)


def test_on_a_machine_that_is_five_times_slower_it_has_five_times_as_long():
    """It has 250 s of a processor's time after 1,250 s, and 300 s after 1,500 s."""
    assert overrun(limit=300, share=0.2, seconds=1250) is None
    now, found = overrun(limit=300, share=0.2, seconds=2000)
    assert now == pytest.approx(1500, abs=2)
    assert not found.is_waiting


def test_several_threads_do_not_end_it_earlier():
    now, _ = overrun(limit=300, share=1.0, seconds=400, threads=16)

    assert now == 301


def test_what_waits_is_ended_by_the_clock():
    now, found = overrun(limit=300, share=0.0, seconds=1000)

    assert now == 301
    assert found.is_waiting
    assert found.processor_seconds == 0


def test_what_waits_after_it_has_worked_is_ended_after_a_limit_without_work():
    watch = Watch(0, 300, began=0.0)
    for now in range(1, 101):
        assert watch.check(now, now) is None

    assert watch.check(390, 100) is None
    assert watch.check(401, 100).is_waiting


def test_a_poll_that_takes_one_percent_waits():
    assert overrun(limit=300, share=0.01, seconds=1000)[1].is_waiting


def test_what_gets_no_processor_does_not_wait():
    """At ``nice 19`` beside one other busy process it has 15 of 1,039 shares (``sched_prio_to_weight``)."""
    assert overrun(limit=300, share=0.014, seconds=5000, wants=9) is None
    assert overrun(limit=300, share=0.014, seconds=5000, wants=1)[0] <= 302


@pytest.mark.parametrize("wants", [0, 10])
@pytest.mark.parametrize("share", [0.0, 0.04, 0.051, 0.2, 1.0])
def test_nothing_goes_on_for_ever(share, wants):
    now, _ = overrun(limit=10, share=share, seconds=1000, wants=wants)

    assert now <= 10 * LONGEST + 2


def test_processor_time_that_is_gone_with_a_process_takes_nothing_back():
    watch = Watch(0, 1.5, began=0.0)

    found = [watch.check(now, used) for now, used in ((1, 5.0), (2, 5.5), (3, 1.0), (4, 2.0))]
    assert found == [None, None, None, Overrun(1.5, 0.5 + 0.0 + 1.0)]


@pytest.mark.parametrize("program", [COMPILES, COMPILED], ids=["in_its_own_session", "ended"])
def test_what_it_has_started_counts(start, program):
    pid = start(program)
    deadline = time.monotonic() + 60

    while (used := usage(pid)[0]) < 0.5 and time.monotonic() < deadline:
        time.sleep(0.1)

    assert used >= 0.5


def test_a_process_that_is_gone_has_none():
    process = subprocess.Popen(["true"])
    process.wait()

    assert usage(process.pid)[0] == 0


def test_other_processes_do_not_count(start):
    start("while True: pass")
    waiting = start("import time\ntime.sleep(60)")
    time.sleep(1)

    assert usage(waiting)[0] < 0.5
    assert usage(os.getpid())[0] > usage(waiting)[0]


@pytest.mark.parametrize(
    ("program", "wants"),
    [
        ("while True: pass", True),
        ("import threading\ndef burn():\n while True: pass\nthreading.Thread(target=burn).start()", True),
        ("import time\ntime.sleep(60)", False),
    ],
    ids=["runs", "a_thread_runs", "sleeps"],
)
def test_what_runs_or_would_run_wants_a_processor(start, program, wants):
    pid = start(program)
    time.sleep(0.5)

    assert sum(usage(pid)[1] for _ in range(10)) >= 9 if wants else not usage(pid)[1]


def test_what_is_said_of_it():
    limit = "the time limit is [tool.membudget] timeout, in seconds"
    assert Overrun(300, 300).text() == (f"it did not finish within 300 s of processor time ({limit})")
    assert Overrun(300, 0.24).text("begin its test") == (
        "it did not begin its test within 300 s, and used 0.2 s of processor time in them: "
        f"it waits ({limit})"
    )
    assert Overrun(300, 300).text(at="test_a.py:3") == (
        f"it did not finish within 300 s of processor time, at test_a.py:3 ({limit})"
    )
