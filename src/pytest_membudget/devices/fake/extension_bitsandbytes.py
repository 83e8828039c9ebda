"""bitsandbytes on the virtual device: its operators' Python kernels run, and its C library does nothing.

Its operators allocate in Python, by torch, and hand pointers to a C library that needs a driver (see
``python_kernels``). That allocates managed memory alone: ``cudaMallocManaged`` is the one allocator among the
symbols of 0.50.2's libbitsandbytes_cuda130.so. Paged optimizer states are of it, outside of PyTorch's
allocator, and counted as the host's. Read in bitsandbytes 0.50.2: cextension.py, functional.py,
backends/cuda/ops.py, optim/optimizer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .after_import import after_import
from .private import checked

KERNELS: Final = (
    "bitsandbytes' C library computes nothing and allocates nothing: its operators work on tensors that "
    "their Python code allocates"
)
PAGED: Final = (
    "bitsandbytes' paged optimizer states are managed memory: counted on the host, though the driver moves "
    "pages to the GPU and back, outside of PyTorch's allocator"
)

#: (module, attribute, what it is for). tests/devices/fake/test_extension_bitsandbytes.py breaks each.
PRIVATE_PARTS: Final = (
    ("bitsandbytes.cuda_specs", "get_cuda_specs", "loading no library that needs a driver"),
    ("bitsandbytes.cextension", "lib", "launching kernels of the C library"),
    ("bitsandbytes.functional", "get_paged", "paged optimizer states"),
)


class LibraryStandIn:
    """The C library for CUDA, whose functions write to the tensors that they are given: here to none."""

    compiled_with_cuda = True

    def __init__(self, assume: Callable[[str], None]) -> None:
        self._assume = assume

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = Function(self._assume)
        setattr(self, name, function)
        return function

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class Function:
    """A function of the C library; ctypes' ``argtypes`` and ``restype`` may be set on it."""

    def __init__(self, assume: Callable[[str], None]) -> None:
        self._assume = assume

    def __call__(self, *args: object) -> int:
        """Success, for functions that return a status."""
        self._assume(KERNELS)
        return 0


def install_bitsandbytes(assume: Callable[[str], None]) -> None:
    """Change bitsandbytes once it is imported; ``assume`` is called with assumptions."""
    after_import("bitsandbytes.cuda_specs", _checked(_find_no_cuda))
    after_import("bitsandbytes.cextension", _checked(lambda module: _stand_in(module, assume)))
    after_import("bitsandbytes.functional", _checked(lambda module: _page_on_host(module, assume)))


def _find_no_cuda(module: Any) -> None:
    module.get_cuda_specs = lambda: None


def _stand_in(module: Any, assume: Callable[[str], None]) -> None:
    module.lib = LibraryStandIn(assume)


def _page_on_host(module: Any, assume: Callable[[str], None]) -> None:
    def get_paged(*shape: int, dtype: torch.dtype = torch.float32, device: Any = None) -> torch.Tensor:
        assume(PAGED)
        paged: Any = torch.empty(shape, dtype=dtype, device="cpu")
        paged.is_paged = True
        paged.page_deviceid = getattr(device, "index", None)
        return paged  # type: ignore[no-any-return]

    module.get_paged = get_paged


def _checked(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return checked(change, PRIVATE_PARTS, "bitsandbytes 0.50")
