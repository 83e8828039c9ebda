"""What PyTorch and Triton ask of a card beyond the catalogue: by compute capability, and by model.

Shared memory, threads and blocks: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute
Capability". L2 and bus of the V100, A100 and H100, clocks of the A100-40GB and H100: caps-tum/mt4g,
sample_results (cudaDeviceProp as the runtime gave it). L2 of the H200 and B200: properties that PyTorch
printed (60 and 126 MB; the B200's 129,536 KiB is not confirmed to the byte). The rest was written down from
memory of NVIDIA's data sheets and is not confirmed: it steers tiles and autotuning, and no allocation of
PyTorch's own is known to depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ...hardware.gpus import Gpu
from ...hardware.nccl import NVSWITCH_CARDS
from ...units import KIB, MIB


@dataclass(frozen=True, slots=True)
class CardFigures:
    """Figures that decide between kernels, not how much memory there is."""

    name: str
    """As the driver gives it."""
    shared_bytes_per_block_optin: int
    shared_bytes_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    l2_bytes: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int


#: Compute capability: KiB of shared memory of a block and of a multiprocessor, threads, blocks.
_BY_CAPABILITY: Final = MappingProxyType(
    {
        (7, 0): (96, 96, 2048, 32),
        (7, 5): (64, 64, 1024, 16),
        (8, 0): (163, 164, 2048, 32),
        (8, 6): (99, 100, 1536, 16),
        (8, 7): (163, 164, 1536, 16),
        (8, 9): (99, 100, 1536, 24),
        (9, 0): (227, 228, 2048, 32),
        (10, 0): (227, 228, 2048, 32),
        (10, 3): (227, 228, 2048, 32),
        (11, 0): (227, 228, 1536, 24),
        (12, 0): (99, 100, 1536, 24),
        (12, 1): (99, 100, 1536, 24),
    }
)

#: The driver's name, L2 in KiB, clock and memory clock in MHz, bits of the memory bus.
_BY_NAME: Final = MappingProxyType(
    {
        "V100-16GB": ("Tesla V100-SXM2-16GB", 6144, 1530, 877, 4096),
        "V100-32GB": ("Tesla V100-SXM2-32GB", 6144, 1530, 877, 4096),
        "T4": ("Tesla T4", 4096, 1590, 5001, 256),
        "A100-40GB": ("NVIDIA A100-SXM4-40GB", 40960, 1410, 1215, 5120),
        "A100-80GB": ("NVIDIA A100-SXM4-80GB", 40960, 1410, 1593, 5120),
        "H100-80GB": ("NVIDIA H100 80GB HBM3", 51200, 1980, 2619, 5120),
        "H200-141GB": ("NVIDIA H200", 61440, 1980, 3201, 6144),
        "B200-180GB": ("NVIDIA B200", 129536, 1965, 3996, 7680),
        "L4": ("NVIDIA L4", 49152, 2040, 6251, 192),
        "L40S": ("NVIDIA L40S", 98304, 2520, 9001, 384),
        "A10": ("NVIDIA A10", 6144, 1695, 6251, 384),
        "A10G": ("NVIDIA A10G", 6144, 1710, 6251, 384),
        "A40": ("NVIDIA A40", 6144, 1740, 7251, 384),
        "A6000": ("NVIDIA RTX A6000", 6144, 1800, 8001, 384),
        "RTX-3090": ("NVIDIA GeForce RTX 3090", 6144, 1695, 9751, 384),
        "RTX-4080": ("NVIDIA GeForce RTX 4080", 65536, 2505, 11201, 256),
        "RTX-4090": ("NVIDIA GeForce RTX 4090", 73728, 2520, 10501, 384),
        "RTX-5090": ("NVIDIA GeForce RTX 5090", 98304, 2407, 14001, 512),
    }
)


def figures_of(gpu: Gpu) -> CardFigures:
    """The figures of ``gpu``; a card that is not in the tables has typical ones."""
    optin_kib, shared_kib, threads, blocks = _BY_CAPABILITY[_known_capability(gpu.capability)]
    name, l2_kib, clock_mhz, memory_clock_mhz, bus_bits = _BY_NAME.get(gpu.name) or _relative(gpu)
    return CardFigures(
        name=name,
        shared_bytes_per_block_optin=optin_kib * KIB,
        shared_bytes_per_multiprocessor=shared_kib * KIB,
        threads_per_multiprocessor=threads,
        blocks_per_multiprocessor=blocks,
        l2_bytes=l2_kib * KIB,
        clock_khz=clock_mhz * 1000,
        memory_clock_khz=memory_clock_mhz * 1000,
        memory_bus_bits=bus_bits,
    )


def peers_of(gpu: Gpu) -> int:
    """Whether a card reaches the memory of others in its node: 1 it does, 0 it does not, 2 by the machine.

    Cards on NVSwitch do (NVIDIA/nccl#1685). GeForce cards' driver does not let them ("GPU not supported",
    noonghunna/club-3090#1130; NVIDIA/nccl#1127). Of others it depends on bridges, slots and IOMMU.
    """
    if gpu.name in NVSWITCH_CARDS:
        return 1
    return 0 if figures_of(gpu).name.startswith("NVIDIA GeForce") else 2


def _known_capability(capability: tuple[int, int]) -> tuple[int, int]:
    """``capability``, or the newest known one before it."""
    return max((known for known in _BY_CAPABILITY if known <= capability), default=(7, 0))


def _relative(gpu: Gpu) -> tuple[str, int, int, int, int]:
    """Typical figures for a card that is not in the table, under its own name."""
    return (f"NVIDIA {gpu.name}", 40 * MIB // KIB, 1500, 5000, 384)
