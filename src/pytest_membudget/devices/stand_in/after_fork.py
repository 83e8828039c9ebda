"""CUDA in a child of fork: PyTorch refuses it after the parent has used CUDA, as a driver would not survive.

There is no driver here. What imports have done on the cards is there for each test's own process.
"""

import ctypes
from typing import Final

import torch

#: Mangled: ``torch::utils::set_device_in_bad_fork(c10::DeviceType, bool)`` of
#: torch/csrc/utils/device_lazy_init.h.
_SET: Final = "_ZN5torch5utils22set_device_in_bad_forkEN3c1010DeviceTypeEb"
#: ``c10::DeviceType::CUDA`` of torch/headeronly/core/DeviceType.h, whose type is int8_t.
_CUDA: Final = 1


def allow_cuda_after_fork() -> None:
    """Let this process, a child, go on with CUDA; children that it forks itself are refused as ever.

    Even asking whether CUDA is there makes PyTorch refuse it in children.

    Of torch a private part: the C++ function that keeps the answer of ``torch._C._cuda_isInBadFork``; see
    tests/devices/stand_in/test_after_fork.py.
    """
    library = ctypes.CDLL(torch._C.__file__)  # whose dependencies are searched too
    getattr(library, _SET)(ctypes.c_int8(_CUDA), ctypes.c_bool(False))
