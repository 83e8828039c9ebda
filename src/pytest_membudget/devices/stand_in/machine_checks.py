"""What the stand-in needs of a machine, a session and a build of torch: checked before workers start."""

import os
import resource
import sysconfig
from typing import Final

from ...units import GIB, gib_text
from ..torch_build.build import TorchBuild

#: Releases of CUDA whose structures native/properties.c and versions.c know.
CUDA_MAJORS: Final = (12, 13)
#: Address space that native/memory.c reserves at least (LEAST_REGION_BYTES), and what host memory
#: (native/host_span.c), libraries and threads take with that.
_RESERVED_BYTES: Final = 256 * GIB
_OTHER_BYTES: Final = 64 * GIB


def why_it_cannot_run(torch: TorchBuild) -> str | None:
    """Why workers with this CUDA build of torch cannot run here, and what to do; None if they can."""
    return _of_libc() or _of_cuda(torch) or _of_folder() or _of_path(torch) or _of_address_space()


def _of_libc() -> str | None:
    if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        return "the stand-in for CUDA is loaded by glibc's ld.so, and this Python is built for musl"
    return None


def _of_cuda(torch: TorchBuild) -> str | None:
    major = (torch.cuda or "").split(".")[0]
    if major in map(str, CUDA_MAJORS):
        return None
    known = " and ".join(map(str, CUDA_MAJORS))
    return (
        f"torch {torch.version} is built for CUDA {torch.cuda}, and this release of pytest-membudget knows "
        f"CUDA {known}: update it, or use a build of torch for one of these"
    )


def _of_folder() -> str | None:
    try:
        os.getcwdb().decode()
    except UnicodeDecodeError:
        return "PyTorch needs names of files in UTF-8, and this folder's is not: rename it"
    try:
        os.getcwd().encode()
    except UnicodeEncodeError:  # bytes without a character in the locale
        return "this locale has no characters for the name of this folder: rename it, or set PYTHONUTF8=1"
    return None


def _of_path(torch: TorchBuild) -> str | None:
    """A worker's own processes find torch by PYTHONPATH."""
    unfit = [str(folder) for folder in torch.import_path if os.pathsep in str(folder)]
    if unfit:
        return f"PYTHONPATH cannot name {unfit[0]}, where torch is: use a folder without a colon in its path"
    return None


def _of_address_space() -> str | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit >= _RESERVED_BYTES + _OTHER_BYTES:
        return None
    return (
        f"address space is limited to {gib_text(limit)} (ulimit -v), and the stand-in needs "
        f"{gib_text(_RESERVED_BYTES + _OTHER_BYTES)} of it, which take no memory: run `ulimit -v unlimited` "
        "before pytest, or have the batch system set no limit of virtual memory"
    )
