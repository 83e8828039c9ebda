"""Memory of NCCL on a card, next to PyTorch's allocator: its kernels, and its communicators' buffers.

PyTorch makes one communicator for every process group, at its first collective (ProcessGroupNCCL), and none
of its memory is PyTorch's. Sizes are those of NVIDIA/nccl 2.28.9, 2.29.7 and 2.30.7 (torch 2.11, 2.13 and
2.15), which do not differ in them. Channels are what NCCL's own log says of a node (``NCCL_DEBUG=INFO``).
What it connects depends on the collectives that it is asked for, and on the algorithms that it chooses for
them: so there are two figures, the least and the most. One node only: what connections over a network take
is not here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..units import KIB, MIB, round_up
from .gpus import Gpu

_GRANULE_BYTES: Final = 2 * MIB
"""What an allocation of NCCL's is rounded up to: the granularity of cuMemCreate, and CUDA_IPC_MIN
(src/include/alloc.h, src/include/comm.h)."""
_STEPS: Final = 8
"""NCCL_STEPS (src/include/device.h): slots of a buffer."""
_BUFFERS_BYTES: Final = (
    8 * 512 * _STEPS * 16,  # LL: lines a thread, threads, slots, bytes a line
    120 * 640 * _STEPS * 8,  # LL128: elements a thread, threads, slots, bytes an element
    4 * MIB,  # Simple: DEFAULT_BUFFSIZE, which NCCL_BUFFSIZE changes
)
"""Of one receiving connection, by protocol (src/init.cc, src/include/device.h)."""
_CONTROL_BYTES: Final = 4 * KIB
"""ncclSendMem and ncclRecvMem (src/include/comm.h): a page of counters at each end."""
_NVLS_CHUNK_BYTES: Final = 128 * KIB
"""NVLS_CHUNKSIZE (src/transport/nvls.cc)."""
_NODE_RANKS: Final = 8

_KERNEL_BYTES: Final = {
    (7, 5): 88 * MIB,
    (8, 0): 87 * MIB,
    (9, 0): 192 * MIB,
    (10, 0): 192 * MIB,
    (12, 0): 168 * MIB,
}
"""Machine code in libnccl.so.2, by the capability it was built for: the ``.text`` of its cubins in the wheels
nvidia-nccl-cu13 2.28.9 and 2.30.7, the larger, in whole MiB. The first communicator of a process asks for
every kernel's attributes, which loads it (ncclInitKernelsForDevice, src/enqueue.cc)."""

CONNECTION_BYTES: Final = sum(
    round_up(size_bytes, _GRANULE_BYTES)
    for size_bytes in (_CONTROL_BYTES + sum(_BUFFERS_BYTES), _CONTROL_BYTES)
)
"""To receive from a peer and to send to one, on one channel: 10 and 2 MiB where the sender writes; 6 and 6
where the receiver reads, as between A100s (src/transport/p2p.cc)."""


@dataclass(frozen=True, slots=True)
class NcclNode:
    """How NCCL joins the cards of a node, in the words of its log."""

    coll_channels: int
    """Rings, and as many trees."""
    p2p_channels: int
    """For send and receive, to every peer."""
    nvls_channels: int
    """For the switch's own reductions (NVLink SHARP); 0 without."""
    on_device: bool = True
    """Cards reach each other's memory; else buffers may be the host's (SHM)."""


_NVSWITCH: Final = {
    # trimagiccube/my_nccl/docs/nccl_debug_info_walkthrough.md (2 A100-SXM4-40GB, NCCL 2.23.4)
    8: NcclNode(24, 32, 0),
    # NVIDIA/nccl#1685 (8 H100, 32 channels a peer); the others from TorchInferno's benchmark on 8 H100 of
    # 2026-06-25, whose log also says "nvlsTotalSize 268435456"
    9: NcclNode(24, 32, 16),
    # NVIDIA/nccl#1646 (DGX B200), there with 32 for NVLS: since 2.28.9 they are 24 within one node
    10: NcclNode(32, 32, 24),
}
"""By major capability; as many for two cards as for four (NVIDIA/nccl#964)."""
NVSWITCH_CARDS: Final = frozenset({"A100-40GB", "A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB"})
_PCIE: Final = NcclNode(2, 2, 0, on_device=False)
"""NVIDIA/nccl-tests#228 (8 cards by SHM), NVIDIA/nccl#1773 (8 cards by P2P): two channels both."""
_ALONE: Final = NcclNode(64, 64, 0)
"""A communicator of one rank has MAXCHANNELS: NVIDIA/nccl#2363 (B300), NVIDIA/nccl#2366 (RTX 3090)."""


@dataclass(frozen=True, slots=True)
class Communicator:
    """One process group that has communicated."""

    ranks: int
    peers: int = 0
    """Ranks that this one sends to and receives from: a pipeline's neighbours, all others for all_to_all."""


@dataclass(frozen=True, slots=True)
class NcclMemory:
    """What one rank's NCCL takes on its card."""

    least_bytes: int
    """Rings alone, or nothing where buffers can be the host's."""
    most_bytes: int
    """Rings, trees and NVLS all in use, on a rank within the trees."""


def nccl_memory(gpu: Gpu, communicators: Iterable[Communicator]) -> NcclMemory | None:
    """What the communicators of one process take on ``gpu``; None where NCCL's channels are not known.

    Raises ``ValueError`` for a communicator of more ranks than a node has cards.
    """
    node, kernels = node_of(gpu), kernel_bytes(gpu)
    if node is None or kernels is None:
        return None
    parts = [communicator_memory(node, each) for each in communicators]
    parts += [NcclMemory(kernels, kernels)] if parts else []
    return NcclMemory(sum(part.least_bytes for part in parts), sum(part.most_bytes for part in parts))


def node_of(gpu: Gpu) -> NcclNode | None:
    """The node that ``gpu`` is usually in: with NVSwitches for the SXM cards, else PCIe without NVLink."""
    if kernel_bytes(gpu) is None:
        return None
    return _NVSWITCH[gpu.capability[0]] if gpu.name in NVSWITCH_CARDS else _PCIE


def kernel_bytes(gpu: Gpu) -> int | None:
    """NCCL's kernels, once a process; None where no library for ``gpu`` was looked into (V100)."""
    major, minor = gpu.capability
    built_for = [known for known in _KERNEL_BYTES if known[0] == major and known[1] <= minor]
    return _KERNEL_BYTES[max(built_for)] if built_for else None


def communicator_memory(node: NcclNode, communicator: Communicator) -> NcclMemory:
    """What one communicator takes, without the kernels.

    Connections are made when an algorithm is first used: the defaults of NCCL_CUMEM_ENABLE and
    NCCL_RUNTIME_CONNECT.
    """
    ranks = communicator.ranks
    if not 1 <= ranks <= _NODE_RANKS:
        raise ValueError(f"a communicator of {ranks} ranks: only those within one node of 8 are known")
    if ranks == 1:
        node = _ALONE
    always, used = setup_bytes(node), ring_bytes(node, ranks)
    if communicator.peers:
        used += p2p_bytes(node, communicator.peers)
    maybe = tree_bytes(node, ranks) + nvls_bytes(node, ranks)
    return NcclMemory(always + (used if node.on_device else 0), always + used + maybe)


def setup_bytes(node: NcclNode) -> int:
    """At ncclCommInitRank: three small tables a channel, one more with NVLS, and three for all of them.

    With cuMem each takes a granule (src/channel.cc; devCommSetup in src/init.cc; the credits of
    src/transport/nvls.cc).
    """
    nvls = node.nvls_channels + 1 if node.nvls_channels else 0
    return (3 * max(node.coll_channels, node.p2p_channels) + 2 + nvls) * _GRANULE_BYTES


def ring_bytes(node: NcclNode, ranks: int) -> int:
    """On every channel one connection from the rank before and one to the rank after."""
    return node.coll_channels * CONNECTION_BYTES if ranks > 1 else 0


def tree_bytes(node: NcclNode, ranks: int) -> int:
    """The rings' connections the other way; within a node a tree is the ring's chain (src/graph/connect.cc).

    Two ranks have both ways from their rings.
    """
    return node.coll_channels * CONNECTION_BYTES if ranks > 2 else 0


def nvls_bytes(node: NcclNode, ranks: int) -> int:
    """A buffer to reduce and one to broadcast, for every channel and rank (ncclNvlsBufferSetup)."""
    return node.nvls_channels * 2 * _STEPS * _NVLS_CHUNK_BYTES * ranks if ranks > 1 else 0


def p2p_bytes(node: NcclNode, peers: int) -> int:
    """Send and receive with ``peers`` ranks: on all channels from the first message on, whatever its size."""
    return peers * node.p2p_channels * CONNECTION_BYTES
