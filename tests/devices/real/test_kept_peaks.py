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


@pytest.mark.parametrize(("device", "later", "peak"), [(0, 7, 7), (0, 9, 9), (1, 1, 1)])
def test_the_highest_peak_before_a_reset_or_after_it_counts_of_the_own_card(allocator, device, later, peak):
    peaks = KeptPeaks()
    peaks.install()
    torch._C._cuda_resetPeakMemoryStats(device)
    peaks.remove()

    assert peaks.over({PEAK: later, CURRENT: 2}) == {PEAK: peak, CURRENT: 2}


def test_torch_resets_by_the_function_that_is_kept_watch_on(monkeypatch):
    """If this fails, torch resets peaks by another function, and what a test resets is not counted."""
    called = []
    monkeypatch.setattr(torch._C, "_cuda_resetPeakMemoryStats", called.append, raising=False)
    torch.cuda.reset_peak_memory_stats(0)

    assert called == [0]
