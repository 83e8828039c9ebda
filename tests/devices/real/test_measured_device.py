"""What a measurement asks of CUDA, in which order, and which of the allocator's figures it takes.

There is no CUDA here: each function of ``torch.cuda`` that the device calls says what a card would.
"""

import pytest
import torch

from pytest_membudget.devices.real.device import RealCudaDevice

MIB = 2**20

#: A run that held most in its middle: no two figures are the same.
STATS = {
    "allocated_bytes.all.current": 1 * MIB,
    "allocated_bytes.all.peak": 7 * MIB,
    "active_bytes.all.current": 2 * MIB,
    "active_bytes.all.peak": 8 * MIB,
    "reserved_bytes.all.current": 4 * MIB,
    "reserved_bytes.all.peak": 20 * MIB,
}


@pytest.fixture
def asked(monkeypatch):
    """The functions of CUDA that are called, in their order."""
    calls = []

    def answers(module, name, answer=None):
        def function(*args, **kwargs):
            calls.append(name)
            return answer

        monkeypatch.setattr(module, name, function, raising=False)  # a torch without CUDA has not all of them

    for name in ("init", "reset_peak_memory_stats", "synchronize"):
        answers(torch.cuda, name)
    answers(torch.cuda, "is_initialized", True)
    answers(torch.cuda, "current_device", 0)
    answers(torch.cuda, "memory_stats", STATS)
    # of 100 MiB 36 are free, and the allocator holds 4: the other 60 are the context's
    answers(torch.cuda, "mem_get_info", (36 * MIB, 100 * MIB))
    answers(torch._C, "_cuda_attach_out_of_memory_observer")
    answers(torch.cuda.memory, "_record_memory_history")
    answers(torch.cuda.memory, "_set_memory_metadata")
    answers(torch.cuda.memory, "_snapshot", {"segments": [], "device_traces": [[]], "allocator_settings": {}})
    return calls


def measured(metric):
    device = RealCudaDevice()
    device.begin()
    return device.end(metric=metric, root="")


def test_peaks_start_anew_when_a_test_begins(asked):
    measured("allocated")

    assert asked.index("reset_peak_memory_stats") < asked.index("_record_memory_history")
    assert asked.count("reset_peak_memory_stats") == 1


def test_nothing_is_read_before_the_card_has_done_its_work(asked):
    measured("allocated")

    done = asked.index("synchronize")
    assert all(asked.index(name) > done for name in ("memory_stats", "mem_get_info", "_snapshot"))


@pytest.mark.parametrize(
    ("metric", "peak_bytes"), [("allocated", 7 * MIB), ("reserved", 20 * MIB), ("device", 80 * MIB)]
)
def test_each_metric_has_its_own_peak_and_components_that_add_up_to_it(asked, metric, peak_bytes):
    report = measured(metric)

    assert report.peak_bytes == peak_bytes
    assert sum(report.components.values()) == peak_bytes
