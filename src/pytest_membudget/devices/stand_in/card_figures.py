"""What else PyTorch and Triton ask of a card: by compute capability, and whether cards reach each other.

CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
"""

from typing import Final, NamedTuple

from ...hardware.gpus import Gpu
from ...hardware.nccl import NVSWITCH_CARDS


class Limits(NamedTuple):
    """Of a block, and of a multiprocessor."""

    block_shared_kib: int
    """That a block can opt in to."""
    shared_kib: int
    threads: int
    blocks: int


_BY_CAPABILITY: Final = {
    (7, 0): Limits(96, 96, 2048, 32),
    (7, 5): Limits(64, 64, 1024, 16),
    (8, 0): Limits(163, 164, 2048, 32),
    (8, 6): Limits(99, 100, 1536, 16),
    (8, 7): Limits(163, 164, 1536, 16),
    (8, 9): Limits(99, 100, 1536, 24),
    (9, 0): Limits(227, 228, 2048, 32),
    (10, 0): Limits(227, 228, 2048, 32),
    (10, 3): Limits(227, 228, 2048, 32),
    (11, 0): Limits(227, 228, 1536, 24),
    (12, 0): Limits(99, 100, 1536, 24),
    (12, 1): Limits(99, 100, 1536, 24),
}


def limits_of(gpu: Gpu) -> Limits:
    """Those of the newest known capability that is not newer than the card's."""
    return _BY_CAPABILITY[max((known for known in _BY_CAPABILITY if known <= gpu.capability), default=(7, 0))]


def peers_of(gpu: Gpu) -> int:
    """Whether a card reaches the memory of others in its node: 1 it does, 0 it does not, 2 by the machine.

    Cards on NVSwitch do (NVIDIA/nccl#1685). GeForce cards' driver does not let them ("GPU not supported",
    noonghunna/club-3090#1130; NVIDIA/nccl#1127). Of others it depends on bridges, slots and IOMMU.
    """
    if gpu.name in NVSWITCH_CARDS:
        return 1
    return 0 if gpu.properties.name.startswith("NVIDIA GeForce") else 2
