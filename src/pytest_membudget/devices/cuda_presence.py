"""Whether this machine may have a CUDA device, without torch and without initializing the driver."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .stand_in.compiling import LIBRARY

#: Device files of NVIDIA's driver: on Linux, on Tegra boards, and in WSL.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg")
#: Values of CUDA_VISIBLE_DEVICES that hide all devices (CUDA C++ Programming Guide 13.0).
_HIDDEN = ("", "-1", "NoDevFiles")


def why_no_cuda(environment: Mapping[str, str]) -> str | None:
    """Why nothing can be measured here; None if there may be a device, which torch then decides."""
    if LIBRARY in environment.get("LD_PRELOAD", ""):
        return f"no CUDA: LD_PRELOAD has {LIBRARY}, a stand-in for CUDA"
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in _HIDDEN:
        return f"no CUDA: CUDA_VISIBLE_DEVICES={visible!r} hides all devices"
    if not any(os.path.exists(path) for path in _DEVICE_FILES):
        return "no CUDA: this machine has no NVIDIA device"
    return None
