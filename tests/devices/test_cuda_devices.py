"""Whether there may be a CUDA device, and who measures on it.

Processes that measure on one GPU wait for each other; one that is killed leaves it to the next.
"""

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from pytest_membudget.devices import cuda_devices
from pytest_membudget.devices.cuda_devices import lock_gpus, visible_names, why_no_cuda

#: A process that locks devices, says so, and keeps them until its input ends.
HOLDER = """
import sys
from pytest_membudget.devices.cuda_devices import lock_gpus

print("begins", flush=True)
with lock_gpus(sys.argv[1:]):
    print("mine", flush=True)
    sys.stdin.readline()
"""
#: Seconds after which a process that waits has not been let in, and in which one that may is.
A_WHILE, SOON = 0.7, 20.0


class Holder:
    """A process that locks devices."""

    def __init__(self, names):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "begins\n"
        self._is_in = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        if self.process.stdout.readline() == "mine\n":
            self._is_in.set()

    def waits(self):
        return not self._is_in.wait(A_WHILE)

    def is_let_in(self):
        return self._is_in.wait(SOON)

    def leave(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(SOON)

    def end(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


@pytest.fixture
def device(tmp_path, monkeypatch):
    """A device whose locks are the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return "GPU-8932f937"


@pytest.fixture
def holder():
    """``holder(*devices)`` starts a process that locks them; all end with the test."""
    holders = []

    def start(*names):
        holders.append(Holder(names))
        return holders[-1]

    yield start
    for one in holders:
        one.end()


# One card


@pytest.mark.parametrize(
    "end", [lambda first: first.leave(), lambda first: first.process.kill()], ids=["leaves", "is killed"]
)
def test_the_next_process_waits_until_the_first_has_ended(holder, device, end):
    first = holder(device)
    assert first.is_let_in()
    second = holder(device)
    assert second.waits()

    end(first)

    assert second.is_let_in()


def test_a_process_that_is_killed_while_it_waits_keeps_nobody_out(holder, device):
    first = holder(device)
    assert first.is_let_in()
    waiting = holder(device)
    waiting.process.kill()
    first.leave()

    assert holder(device).is_let_in()


def test_a_card_named_twice_is_one_card_and_may_be_locked_again_in_one_process(device):
    for _ in range(2):
        with lock_gpus([device, device]):
            pass


# Several cards


def test_a_test_on_several_cards_waits_for_all_of_them_and_another_card_is_free_meanwhile(holder, device):
    one = holder(f"{device}-1")
    assert one.is_let_in()
    both = holder(f"{device}-0", f"{device}-1")
    assert both.waits()
    assert holder(f"{device}-2").is_let_in()

    one.leave()

    assert both.is_let_in()


def test_tests_that_name_the_same_cards_in_other_orders_do_not_wait_for_each_other_for_ever(holder, device):
    names = [f"{device}-{number}" for number in range(3)]
    first = holder(names[1])  # so that the two below meet
    assert first.is_let_in()
    two = [holder(*names), holder(*reversed(names))]
    assert all(one.waits() for one in two)
    first.leave()

    earlier = two[0] if not two[0].waits() else two[1]
    assert earlier.is_let_in()
    earlier.leave()
    assert all(one.is_let_in() for one in two)


# Names


@pytest.mark.parametrize(
    ("visible", "count", "names"),
    [
        (None, 2, ["0", "1"]),
        ("3,1", 1, ["3"]),
        ("3, 1", 2, ["3", "1"]),
        ("3", 2, ["3"]),
        ("GPU-8932f937,MIG-7", 2, ["GPU-8932f937", "MIG-7"]),
    ],
)
def test_devices_are_named_as_the_environment_names_them(visible, count, names):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert visible_names(environment, count) == names


def test_the_locks_of_a_user_are_that_users(device, tmp_path):
    with lock_gpus([f"{device}/../x"]):
        (file,) = tmp_path.iterdir()

    assert file.name == f"membudget-{os.getuid()}-cuda-{device}____x.lock"


# Whether there may be one, by what the driver leaves in the file system and the environment


HIDDEN = "no CUDA: CUDA_VISIBLE_DEVICES={!r} hides all devices"
STAND_IN = "no CUDA: LD_PRELOAD has libmembudget_stand_in.so, a stand-in for CUDA"


@pytest.mark.parametrize(
    ("is_there", "environment", "why_not"),
    [
        (True, {}, None),
        (True, {"CUDA_VISIBLE_DEVICES": "1,0"}, None),
        (False, {}, "no CUDA: this machine has no NVIDIA device"),
        *(
            (True, {"CUDA_VISIBLE_DEVICES": value}, HIDDEN.format(value))
            for value in ("", "-1", " ", "NoDevFiles")
        ),
        (True, {"LD_PRELOAD": "/usr/lib/libx.so /here/libmembudget_stand_in.so"}, STAND_IN),
    ],
)
def test_whether_there_may_be_one(monkeypatch, tmp_path, is_there, environment, why_not):
    """By the driver's file, and what hides it."""
    path = tmp_path / "nvidiactl"
    if is_there:
        path.touch()
    monkeypatch.setattr(cuda_devices, "_DEVICE_FILES", (str(path),))

    assert why_no_cuda(environment) == why_not
