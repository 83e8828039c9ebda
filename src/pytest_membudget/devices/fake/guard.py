"""A CUDA device guard for builds of torch, or machines, that have none."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from ...errors import UnsupportedTorch

#: Index of CUDA in c10::DeviceType (c10/core/DeviceType.h, 2.11 to 2.15; part of torch's serialised ABI).
_CUDA = 1
#: c10::COMPILE_TIME_MAX_DEVICE_TYPES (c10/core/DeviceType.h, 2.13).
_DEVICE_TYPES = 22
#: The accelerator's name; what a number names for torch (see ``device_names``).
STAND_IN = "membudget_stand_in"
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"

_keep_alive: list[Any] = []


def install_cuda_guard() -> None:
    """Make autograd accept cuda tensors where no CUDA is.

    torch swaps its own no-op guard in (`torch._C._ensureCUDADeviceGuardSet`) once a CUDA guard is
    registered that counts no device. A CPU build registers none at all, so for one moment a guard is
    in whose every method returns 0, and torch replaces it.
    """
    registry = _guard_registry()
    if not registry[_CUDA]:
        registry[_CUDA] = _guard_that_counts_no_device()
        torch._C._ensureCUDADeviceGuardSet()
        if registry[_CUDA] == ctypes.addressof(_keep_alive[-1]):
            raise UnsupportedTorch(
                f"torch {torch.__version__} did not replace the stand-in CUDA guard by its no-op guard"
            )
    else:
        torch._C._ensureCUDADeviceGuardSet()


def _guard_registry() -> Any:
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    try:
        return (ctypes.c_void_p * _DEVICE_TYPES).in_dll(ctypes.CDLL(library), _REGISTRY)
    except (OSError, ValueError) as error:
        raise UnsupportedTorch(
            f"torch {torch.__version__} has no c10 device-guard registry at {library} ({error}); "
            "the virtual device is made for torch 2.11 and later on Linux"
        ) from error


def _guard_that_counts_no_device() -> int:
    returns_zero = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: 0)
    address = ctypes.cast(returns_zero, ctypes.c_void_p).value
    vtable = (ctypes.c_void_p * 64)(*[address] * 64)  # more slots than DeviceGuardImplInterface has methods
    guard = (ctypes.c_void_p * 1)(ctypes.addressof(vtable))
    _keep_alive.extend([returns_zero, vtable, guard])
    return ctypes.addressof(guard)


def register_stand_in_accelerator() -> None:
    """Give the autograd engine an accelerator whose primary contexts it can ask for.

    The engine of 2.15 asks the accelerator of the build; a CUDA build without a driver has none to offer
    ("hasPrimaryContext expects a valid device index"). A Python-made PrivateUse1 backend answers instead.
    """
    if torch._C._get_privateuse1_backend_name() != "privateuseone":
        return  # a backend of the user is registered already
    from torch.utils.backend_registration import (
        _setup_privateuseone_for_python_backend,
    )

    _setup_privateuseone_for_python_backend(STAND_IN)
