"""Processes that measure on one GPU share it by their budgets; one that dies leaves its share to the next."""

import contextlib
import os
import subprocess
import sys
import threading
import uuid

import pytest

from pytest_membudget.devices.gpu_lock import looking_turn, shared_turn, visible_names, whole_turn

GIB = 2**30
#: Of a card with 8 GiB, in a process of its own: it takes its turn, says so, and keeps it until it is told.
HOLDER = """
import sys
from pytest_membudget.devices.gpu_lock import looking_turn, shared_turn, whole_turn

kind, names, need = sys.argv[1], sys.argv[2].split(","), float(sys.argv[3])
turn = {
    "whole": lambda: whole_turn(names),
    "shared": lambda: shared_turn(names[0], int(need * 2**30), 8 * 2**30),
    "looking": lambda: looking_turn(names[0]),
}[kind]
print("begins", flush=True)
with turn():
    print("mine", flush=True)
    sys.stdin.readline()
"""
#: Seconds after which a process that waits has not been let in, and in which one that may is.
A_WHILE, SOON = 0.7, 20.0


class Holder:
    """A process that takes a turn."""

    def __init__(self, kind, names, need=0.0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, kind, ",".join(names), str(need)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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
def device():
    """A device that no other test has."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def holder():
    """``holder(kind, *devices, need=GiB)`` starts a process that takes a turn; all end with the test."""
    holders = []

    def start(kind, *names, need=0.0):
        holders.append(Holder(kind, names, need))
        return holders[-1]

    yield start
    for one in holders:
        one.end()


# One card


def test_tests_whose_budgets_fit_the_card_together_share_it(holder, device):
    assert holder("shared", device, need=3).is_let_in()
    assert holder("shared", device, need=3).is_let_in()
    assert holder("shared", device, need=2).is_let_in()  # 8 of 8 GiB


def test_a_test_that_fits_no_more_waits_until_enough_is_free(holder, device):
    first, second = holder("shared", device, need=3), holder("shared", device, need=3)
    assert first.is_let_in()
    assert second.is_let_in()
    third = holder("shared", device, need=4)
    assert third.waits()

    second.leave()

    assert third.is_let_in()


def test_a_test_without_a_figure_has_the_card_alone(holder, device):
    shared = holder("shared", device, need=1)
    assert shared.is_let_in()
    alone = holder("whole", device)
    assert alone.waits()
    shared.leave()
    assert alone.is_let_in()

    assert holder("shared", device, need=1).waits()


@pytest.mark.parametrize("need", [8, 7.99, 100])
def test_a_test_that_needs_all_of_the_card_has_it_alone(holder, device, need):
    assert holder("shared", device, need=need).is_let_in()

    assert holder("shared", device, need=0.01).waits()


def test_a_large_test_is_not_passed_by_for_ever_by_small_ones(holder, device):
    small = holder("shared", device, need=2)
    assert small.is_let_in()
    large = holder("shared", device, need=7)
    assert large.waits()
    late = holder("shared", device, need=2)  # would fit beside the first, but the large one was there before
    assert late.waits()

    small.leave()

    assert large.is_let_in()
    assert late.waits()
    large.leave()
    assert late.is_let_in()


def test_a_test_that_needs_the_card_alone_is_not_passed_by_either(holder, device):
    small = holder("shared", device, need=2)
    assert small.is_let_in()
    alone = holder("whole", device)
    assert alone.waits()
    late = holder("shared", device, need=2)
    assert late.waits()

    small.leave()

    assert alone.is_let_in()


@pytest.mark.parametrize("kind", ["shared", "whole"])
def test_a_process_that_is_killed_leaves_its_turn_to_the_next(holder, device, kind):
    first = holder(kind, device, need=5)
    assert first.is_let_in()
    second = holder(kind, device, need=5)
    assert second.waits()

    first.process.kill()

    assert second.is_let_in()


def test_a_process_that_is_killed_in_the_queue_keeps_nobody_out(holder, device):
    first = holder("shared", device, need=5)
    assert first.is_let_in()
    waiting = holder("shared", device, need=5)
    assert waiting.waits()
    waiting.process.kill()

    assert holder("shared", device, need=3).is_let_in()


def test_the_card_is_looked_at_beside_tests_that_share_it_and_not_beside_one_that_has_it_alone(
    holder, device
):
    shared = holder("shared", device, need=7)
    assert shared.is_let_in()
    looks = [holder("looking", device) for _ in range(2)]
    assert all(look.is_let_in() for look in looks)
    alone = holder("whole", device)
    assert alone.waits()
    shared.leave()
    assert alone.waits()  # for who looks
    for look in looks:
        look.leave()
    assert alone.is_let_in()

    assert holder("looking", device).waits()


def test_a_turn_may_be_taken_again_in_one_process(device):
    for _ in range(2):
        with looking_turn(device):
            pass
        with shared_turn(device, GIB, 8 * GIB):
            pass
        with whole_turn([device]):
            pass


# Several cards


def test_another_card_is_free_meanwhile(holder, device):
    assert holder("whole", f"{device}-0").is_let_in()
    assert holder("whole", f"{device}-1").is_let_in()


def test_a_test_on_several_cards_waits_for_all_of_them(holder, device):
    shared = holder("shared", f"{device}-1", need=1)
    assert shared.is_let_in()
    both = holder("whole", f"{device}-0", f"{device}-1")
    assert both.waits()

    shared.leave()

    assert both.is_let_in()
    assert holder("shared", f"{device}-0", need=1).waits()


def test_tests_that_name_the_same_cards_in_other_orders_do_not_wait_for_each_other_for_ever(holder, device):
    names = [f"{device}-{number}" for number in range(3)]
    first = holder("whole", names[1])  # so that the two below meet
    assert first.is_let_in()
    two = [holder("whole", *names), holder("whole", *reversed(names))]
    assert all(one.waits() for one in two)
    first.leave()

    earlier = two[0] if not two[0].waits() else two[1]
    assert earlier.is_let_in()
    earlier.leave()
    assert all(one.is_let_in() for one in two)


def test_a_card_named_twice_is_one_card(device):
    with whole_turn([device, device]):
        pass


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


def test_the_locks_of_a_user_are_that_users(device, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with whole_turn([f"{device}/../x"]):
        (file,) = tmp_path.iterdir()

    assert file.name == f"membudget-{os.getuid()}-cuda-{device}____x.lock"
