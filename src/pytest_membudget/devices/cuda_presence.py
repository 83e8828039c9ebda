"""Whether this machine may have a CUDA device, found out without torch and without waking a driver."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .stand_in.compiling import LIBRARY

#: What NVIDIA's driver makes: on Linux, on Tegra boards, and in Windows' Linux.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg")
#: Values of CUDA_VISIBLE_DEVICES that hide all devices (CUDA C++ Programming Guide 13.0).
_HIDDEN = ("", "-1", "NoDevFiles")


def why_no_cuda(environment: Mapping[str, str]) -> str | None:
    """Why nothing can be measured here; None where there may be a device: torch has the last word."""
    if LIBRARY in environment.get("LD_PRELOAD", ""):
        return f"no CUDA: LD_PRELOAD has {LIBRARY}, which only stands in for it"
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in _HIDDEN:
        return f"no CUDA: CUDA_VISIBLE_DEVICES={visible!r} hides all devices"
    if not any(os.path.exists(path) for path in _DEVICE_FILES):
        return "no CUDA: this machine has no NVIDIA device"
    return None
