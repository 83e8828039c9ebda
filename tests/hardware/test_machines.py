"""Host memory by machines: 8 GPUs each, or as many as a launcher says; the one that holds most counts."""

import pytest

from pytest_membudget.components import METRICS
from pytest_membudget.hardware.machines import Machine, fullest_machine, gpus_a_machine
from pytest_membudget.memory_report import MemoryReport


def report(rank, host_bytes=None):
    host = None
    if host_bytes is not None:
        host = MemoryReport("traced", "allocated", dict.fromkeys(METRICS, host_bytes), {})
    return MemoryReport("traced", "allocated", dict.fromkeys(METRICS, 1), {}, rank=rank, host=host)


@pytest.mark.parametrize(
    ("gpus", "said", "size"),
    [
        (1, None, 1),
        (2, None, 2),
        (8, None, 8),
        (64, None, 8),
        (64, "4", 4),
        (2, "4", 2),
        (64, "16", 16),
        (64, "0", 8),
        (64, "", 8),
        (64, "four", 8),
    ],
)
def test_a_machine_has_up_to_8_gpus_or_what_the_launcher_says(gpus, said, size):
    assert gpus_a_machine(gpus, {} if said is None else {"LOCAL_WORLD_SIZE": said}) == size


def test_a_machines_ranks_add_up():
    assert fullest_machine([report(0, 70), report(1, 85)], 2, 2) == Machine(0, 1, 155)


def test_of_several_machines_the_fullest_counts():
    reports = [report(rank, size) for rank, size in enumerate([1, 2, 10, 20, 5, 6])]
    assert fullest_machine(reports, 6, 2) == Machine(2, 3, 30)


def test_the_last_machine_may_have_fewer():
    assert fullest_machine([report(0, 10), report(1, 10), report(2, 100)], 3, 2) == Machine(2, 2, 100)


def test_a_rank_without_an_estimate_counts_as_the_one_that_holds_most():
    # 8 a machine; of the first 0 is known, of the second 15: 30 + 7 x 30, and 7 x 30 + 20
    assert fullest_machine([report(0, 30), report(15, 20)], 16, 8) == Machine(0, 7, 240)


def test_a_rank_that_holds_nothing_counts_nothing():
    assert fullest_machine([report(0, 30), report(1)], 2, 2) == Machine(0, 1, 30)
    assert fullest_machine([report(0), report(1)], 2, 2) == Machine(0, 1, 0)


def test_without_reports_there_is_no_machine():
    assert fullest_machine([], 2, 2) is None
