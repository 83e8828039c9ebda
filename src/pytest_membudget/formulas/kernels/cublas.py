"""cuBLAS workspaces: their sizes, by card and release of torch.

Read in aten/src/ATen/cuda/CublasHandlePool.cpp and CUDABlas.cpp, and the constants in the CUDA wheels of
2.11.0, 2.12.1, 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import re

from ...errors import UsageMistake
from ...units import KIB

#: ``:4096:2:16:8`` in KiB and counts (parseChosenWorkspaceSize).
_DEFAULT_BYTES = (4096 * 2 + 16 * 8) * KIB
#: ``:4096:8``
_LARGE_BYTES = 4096 * 8 * KIB
_PAIR = re.compile(r":(\d+):(\d+)")


def cublas_workspace_bytes(
    capability: tuple[int, int], torch_version: tuple[int, int], config: str | None = None
) -> int:
    """Size of one workspace; ``config`` is CUBLAS_WORKSPACE_CONFIG, pairs of ``:KiB:count``.

    Without it, 32 MiB on recent data-centre cards, and 8,519,680 bytes elsewhere.
    """
    if config:
        pairs = _PAIR.findall(config)
        if "".join(f":{size}:{count}" for size, count in pairs) != config:
            raise UsageMistake(
                f"CUBLAS_WORKSPACE_CONFIG={config!r} cannot be read; "
                "write pairs of :KiB:count, as in ':4096:8'"
            )
        return sum(int(size) * int(count) for size, count in pairs) * KIB
    return _LARGE_BYTES if _is_large(capability, torch_version) else _DEFAULT_BYTES


def _is_large(capability: tuple[int, int], torch_version: tuple[int, int]) -> bool:
    if torch_version <= (2, 11):
        return capability == (9, 0)
    if torch_version <= (2, 13):
        return capability[0] in (9, 10, 12)
    return capability[0] in (9, 10, 11, 12)
