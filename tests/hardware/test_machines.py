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


@pytest.mark.parametrize(
    ("held", "gpus", "a_machine", "fullest"),
    [
        ({0: 70, 1: 85}, 2, 2, Machine(0, 1, 155)),
        ({0: 1, 1: 2, 2: 10, 3: 20, 4: 5, 5: 6}, 6, 2, Machine(2, 3, 30)),
        ({0: 10, 1: 10, 2: 100}, 3, 2, Machine(2, 2, 100)),  # the last machine has fewer
        # a rank without an estimate counts as the one that holds most: 8 a machine; of the first 0 is known,
        # of the second 15: 30 + 7 x 30, and 7 x 30 + 20
        ({0: 30, 15: 20}, 16, 8, Machine(0, 7, 240)),
        ({0: 30, 1: None}, 2, 2, Machine(0, 1, 30)),  # one that holds nothing counts nothing
        ({0: None, 1: None}, 2, 2, Machine(0, 1, 0)),
        ({}, 2, 2, None),
    ],
)
def test_the_ranks_of_the_fullest_machine_add_up(held, gpus, a_machine, fullest):
    assert fullest_machine([report(*one) for one in held.items()], gpus, a_machine) == fullest
