"""The allocator's peaks over a whole run, though the test resets its statistics on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_PEAK = ".peak"


class KeptPeaks:
    """Keeps what ``torch.cuda.reset_peak_memory_stats`` and its kin throw away, while it is installed.

    All of them call the private ``torch._C._cuda_resetPeakMemoryStats``; see
    tests/devices/real/test_kept_peaks.py.
    """

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}
        self._reset: Any = None

    def install(self) -> None:
        """Start; where torch has no CUDA there is nothing to keep."""
        own: Any = torch._C
        self._reset = getattr(own, "_cuda_resetPeakMemoryStats", None)
        if self._reset is not None:
            own._cuda_resetPeakMemoryStats = self._keep_and_reset

    def remove(self) -> None:
        """Stop."""
        own: Any = torch._C
        if self._reset is not None:
            own._cuda_resetPeakMemoryStats = self._reset

    def over(self, stats: Mapping[str, int]) -> dict[str, int]:
        """``stats`` of ``torch.cuda.memory_stats``, with the peaks of the whole run."""
        kept = self._highest
        return {name: max(value, kept[name]) if name in kept else value for name, value in stats.items()}

    def _keep_and_reset(self, device: int) -> None:
        if device == torch.cuda.current_device():
            now = torch.cuda.memory_stats()
            self._highest = {name: value for name, value in self.over(now).items() if name.endswith(_PEAK)}
        self._reset(device)
