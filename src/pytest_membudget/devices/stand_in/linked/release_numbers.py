"""Releases of NVIDIA's libraries by which torch decides: those installed, else those it was built for.

Which products cuBLASLt has (aten/src/ATen/native/cuda/ScaledBlas.cpp and CUDABlas.cpp), what NCCL can do
(torch/csrc/distributed/c10d/NCCLUtils.cpp), and whether cuDNN computes attention
(aten/src/ATen/native/transformers/cuda/sdp_utils.cpp), torch 2.11 to 2.15.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from ....json_object import JsonObject

#: An exact requirement: ``nvidia-cudnn-cu13==9.20.0.48``, ``cuda-toolkit[cublas,cudart]==13.0.3``.
_EXACT: Final = re.compile(r"([a-z-]+?)(?:-cu\d+)?(?:\[[^]]*\])?==(\d+(?:\.\d+)*)")
#: cuBLAS's release in a release of CUDA 13: what the cuda-toolkit of that version on PyPI requires (2026-11).
_CUBLAS_OF_CUDA: Final = {
    130000: 130000,
    130001: 130002,
    130002: 130100,
    130003: 130101,
    130100: 130200,
    130101: 130201,
    130200: 130300,
    130201: 130400,
    130202: 130401,
}
#: Prints what a library says of itself; neither function touches a driver.
_CUBLAS_NUMBER: Final = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cublasLtGetVersion())"
_NCCL_NUMBER: Final = (
    "import ctypes, sys; number = ctypes.c_int(); "
    "ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(number)); print(number.value)"
)


@dataclass(frozen=True, slots=True)
class ReleaseNumbers(JsonObject):
    """As a library's own function gives it, major * 10000 + minor * 100 + patch; 0 where it is not known."""

    cublas: int
    nccl: int
    cudnn: int


def release_numbers(torch: Path, installed: Mapping[str, Path]) -> ReleaseNumbers:
    """Those of the torch in the folder ``torch``; ``installed``: the libraries that are there, by soname."""
    required = _required_versions(torch.parent)
    required_cublas = _number(required.get("nvidia-cublas", ""))
    cublas = required_cublas or _cublas_of(_number(required.get("cuda-toolkit", "")))
    return ReleaseNumbers(
        cublas=_asked(_CUBLAS_NUMBER, installed, "libcublasLt.so.") or cublas,
        nccl=_asked(_NCCL_NUMBER, installed, "libnccl.so.") or _number(required.get("nvidia-nccl", "")),
        cudnn=_number(required.get("nvidia-cudnn", "")),
    )


def _required_versions(site: Path) -> dict[str, str]:
    """Versions of NVIDIA's packages that torch's wheel in ``site`` was built for."""
    found = {}
    for torch in distributions(name="torch", path=[str(site)]):
        for requirement in torch.requires or ():
            if exact := _EXACT.match(requirement):
                found[exact[1]] = exact[2]
    return found


def _cublas_of(cuda: int) -> int:
    """At least what the newest CUDA has that is known and not newer; one of the same number otherwise."""
    known = [cublas for release, cublas in _CUBLAS_OF_CUDA.items() if release <= cuda]
    return _CUBLAS_OF_CUDA.get(cuda, max([cuda, *known]))


def _number(version: str) -> int:
    """13.1.1.3 as 130101."""
    major, minor, patch = [*(int(part) for part in version.split(".") if part), 0, 0, 0][:3]
    return major * 10000 + minor * 100 + patch


def _asked(code: str, installed: Mapping[str, Path], beginning: str) -> int:
    path = next((path for soname, path in installed.items() if soname.startswith(beginning)), None)
    if path is None:
        return 0
    command = [sys.executable, "-I", "-S", "-c", code, str(path)]
    plain = {"PATH": "/usr/bin:/bin"}  # with nothing preloaded
    try:
        return int(subprocess.run(command, capture_output=True, timeout=120, check=False, env=plain).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0
