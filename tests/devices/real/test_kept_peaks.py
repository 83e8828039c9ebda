"""Peaks of a run whose test resets the allocator's statistics; the figures are small ones made up here."""

import pytest
import torch

from pytest_membudget.devices.real.recorded_run import KeptPeaks

PEAK, CURRENT = "allocated_bytes.all.peak", "allocated_bytes.all.current"


@pytest.fixture
def allocator(monkeypatch):
    """Statistics as a card would have them; a reset brings the peak down to what is held."""
    stats = {PEAK: 7, CURRENT: 2}
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: dict(stats))
    monkeypatch.setattr(
        torch._C,
        "_cuda_resetPeakMemoryStats",
        lambda device: stats.update({PEAK: stats[CURRENT]}),
        raising=False,
    )
    return stats


def test_a_peak_that_was_reset_counts(allocator):
    peaks = KeptPeaks()
    peaks.install()
    torch._C._cuda_resetPeakMemoryStats(0)
    peaks.remove()

    assert torch.cuda.memory_stats()[PEAK] == 2
    assert peaks.over(torch.cuda.memory_stats()) == {PEAK: 7, CURRENT: 2}


def test_a_higher_peak_after_the_reset_is_the_one_that_counts(allocator):
    peaks = KeptPeaks()
    peaks.install()
    torch._C._cuda_resetPeakMemoryStats(0)
    allocator[PEAK] = 9
    peaks.remove()

    assert peaks.over(torch.cuda.memory_stats())[PEAK] == 9


def test_another_cards_reset_keeps_nothing(allocator):
    peaks = KeptPeaks()
    peaks.install()
    torch._C._cuda_resetPeakMemoryStats(1)
    peaks.remove()

    assert peaks.over({PEAK: 1})[PEAK] == 1


def test_torch_resets_by_the_function_that_is_kept_watch_on(monkeypatch):
    """If this fails, torch resets peaks by another function, and what a test resets is not counted."""
    called = []
    monkeypatch.setattr(torch._C, "_cuda_resetPeakMemoryStats", called.append, raising=False)
    torch.cuda.reset_peak_memory_stats(0)

    assert called == [0]
