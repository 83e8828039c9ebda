"""The CUDA devices of this machine: whether there may be any, and a lock file for each that is measured on.

Without torch, and without initializing the driver.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from .stand_in.compiling import LIBRARY

_VISIBLE = "CUDA_VISIBLE_DEVICES"
#: Device files of NVIDIA's driver: on Linux, on Tegra boards, and in WSL.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg")
#: Values of CUDA_VISIBLE_DEVICES that hide all devices (CUDA C++ Programming Guide 13.0).
_HIDDEN = ("", "-1", "NoDevFiles")


def why_no_cuda(environment: Mapping[str, str]) -> str | None:
    """Why nothing can be measured here; None if there may be a device, which torch then decides."""
    if LIBRARY in environment.get("LD_PRELOAD", ""):
        return f"no CUDA: LD_PRELOAD has {LIBRARY}, a stand-in for CUDA"
    visible = environment.get(_VISIBLE)
    if visible is not None and visible.strip() in _HIDDEN:
        return f"no CUDA: CUDA_VISIBLE_DEVICES={visible!r} hides all devices"
    if not any(os.path.exists(path) for path in _DEVICE_FILES):
        return "no CUDA: this machine has no NVIDIA device"
    return None


def visible_names(environment: Mapping[str, str], count: int) -> list[str]:
    """Names of the first ``count`` devices, as CUDA_VISIBLE_DEVICES has them; fewer if it shows fewer."""
    visible = environment.get(_VISIBLE)
    if visible is None:
        return [str(index) for index in range(count)]
    return [name.strip() for name in visible.split(",")][:count]


@contextlib.contextmanager
def lock_gpus(names: Sequence[str]) -> Iterator[None]:
    """Wait until no other process has locked one of the devices ``names``, and keep them locked inside.

    They are locked in the order of their names, whatever theirs is here, so that two processes which need the
    same devices do not wait for each other. The system releases the locks of a process that is killed.
    """
    from filelock import FileLock  # only where something is measured

    with contextlib.ExitStack() as held:
        for name in sorted(set(names)):
            held.enter_context(FileLock(_lock_file(name)))
        yield


def _lock_file(name: str) -> str:
    file = f"membudget-{os.getuid()}-cuda-{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
    return os.path.join(tempfile.gettempdir(), file)
