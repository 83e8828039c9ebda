"""The environment of a process that runs on the stand-in. Nothing here imports torch."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...cache.store import cache_folder
from ...hardware.gpus import Gpu
from ...units import GIB, KIB
from ..torch_build.build import TorchBuild, environments_torch
from .building import LIBRARY, NAMED
from .card_figures import limits_of, peers_of
from .linked.libraries import linked_libraries
from .nvidia_smi import FOLDER

CARDS_VARIABLE: Final = "MEMBUDGET_STAND_IN_CARDS"
CUDA_VARIABLE: Final = "MEMBUDGET_STAND_IN_CUDA"
#: Releases of libraries that are not there, as native/versions.c reads them.
CUBLAS_VARIABLE: Final = "MEMBUDGET_STAND_IN_CUBLAS"
NCCL_VARIABLE: Final = "MEMBUDGET_STAND_IN_NCCL"
CUDNN_VARIABLE: Final = "MEMBUDGET_STAND_IN_CUDNN"
#: Where inductor keeps what it has compiled, and which kernels autotuning has found to be the fastest.
INDUCTOR_VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"
#: In how many processes inductor compiles; with 1 in its own (``decide_compile_threads``, torch 2.13).
THREADS_VARIABLE: Final = "TORCHINDUCTOR_COMPILE_THREADS"
#: The capacity of a card on which nothing runs out of memory.
UNLIMITED_BYTES: Final = 16 * 1024 * GIB


def cards_text(gpu: Gpu, count: int = 1, *, unlimited: bool = False) -> str:
    """``count`` cards of this kind, as the library reads them.

    ``unlimited``: more than the card has can be allocated, for what only asks how much is needed.
    """
    properties, limits = gpu.properties, limits_of(gpu)
    values = {
        "name": properties.name,
        "total_bytes": gpu.total_bytes,
        "major": gpu.capability[0],
        "minor": gpu.capability[1],
        "multiprocessors": gpu.multiprocessor_count,
        "shared_bytes_per_block_optin": limits.block_shared_kib * KIB,
        "shared_bytes_per_multiprocessor": limits.shared_kib * KIB,
        "l2_bytes": properties.l2_kib * KIB,
        "threads_per_multiprocessor": limits.threads,
        "blocks_per_multiprocessor": limits.blocks,
        "clock_khz": properties.clock_mhz * 1000,
        "memory_clock_khz": properties.memory_clock_mhz * 1000,
        "memory_bus_bits": properties.memory_bus_bits,
        "peers": peers_of(gpu),
        "context_bytes": gpu.context_bytes,
        "capacity_bytes": UNLIMITED_BYTES if unlimited else gpu.usable_bytes,
    }
    return "\n".join([";".join(f"{key}={value}" for key, value in values.items())] * count)


def stand_in_environment(
    built: Path,
    torch: TorchBuild,
    gpu: Gpu,
    count: int,
    base: Mapping[str, str],
    *,
    unlimited: bool = False,
    scratch: str | None = None,
) -> dict[str, str]:
    """``base`` with what a process needs in which ``torch`` is to find ``count`` cards of this kind.

    ``built``: the folder of the stand-in's libraries. ``scratch``: one for what runs on cards are not to
    find: here all kernels are equally fast. Raises ``CannotBuild``.
    """
    assert torch.cuda is not None  # workers import no other build
    linked = linked_libraries(torch.folder / "torch", built, base)
    # the driver's that was written comes before the one that has no functions to refuse
    libraries = [str(built / LIBRARY), *map(str, linked.paths), *(str(built / name) for name in NAMED)]
    environment = {
        **base,
        "LD_PRELOAD": " ".join([*libraries, *re.split(r"[\s:]+", base.get("LD_PRELOAD", ""))]).strip(),
        CARDS_VARIABLE: cards_text(gpu, count, unlimited=unlimited),
        "PATH": os.pathsep.join(filter(None, [str(FOLDER), base.get("PATH", os.defpath)])),
        "TRITON_LIBCUDA_PATH": str(built),
        # Triton's own compiler makes the same on all machines: kept, but apart, with what it links
        "TRITON_CACHE_DIR": str(cache_folder(base) / "triton"),
        # what NVRTC has compiled here is nothing: the user's cache of kernels is not to have it
        "USE_PYTORCH_KERNEL_CACHE": "0",
        # a process that compiles for it would import torch anew for each test, on a core that others run on
        THREADS_VARIABLE: base.get(THREADS_VARIABLE, "1"),
        # C++ functions have the names that native/addresses.c finds; else torch reads all for each test
        "TORCH_SYMBOLIZE_MODE": base.get("TORCH_SYMBOLIZE_MODE", "dladdr"),
        CUDA_VARIABLE: str(_as_number(torch.cuda)),
        CUBLAS_VARIABLE: str(linked.releases.cublas),
        NCCL_VARIABLE: str(linked.releases.nccl),
        CUDNN_VARIABLE: str(linked.releases.cudnn),
    }
    if scratch is not None:
        environment[INDUCTOR_VARIABLE] = str(Path(scratch, "inductor"))
    # what hides the machine's own cards would hide these from torch, which reads it by itself
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if torch != environments_torch():  # for the processes that a test starts
        path = [*map(str, torch.import_path), base.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return environment


def _as_number(version: str) -> int:
    major, minor = version.split(".")[:2]
    return 1000 * int(major) + 10 * int(minor)
