"""What NCCL takes beside the allocator: by hand from NCCL's sources, and as others have measured it.

A connection is 10 MiB to receive (0.5 MiB for LL, 4.6875 for LL128, 4 for Simple, in whole 2 MiB) and 2 MiB
to send.
"""

import pytest

from pytest_membudget.hardware.gpus import find_gpu, load_gpus
from pytest_membudget.hardware.nccl import (
    CONNECTION_BYTES,
    Communicator,
    NcclMemory,
    communicator_memory,
    kernel_bytes,
    nccl_memory,
    node_of,
    nvls_bytes,
    p2p_bytes,
    ring_bytes,
    setup_bytes,
    tree_bytes,
)

MIB = 2**20
GIB = 2**30
NVSWITCH_CARDS = ["A100-40GB", "A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB"]
UNKNOWN_CARDS = ["V100-16GB", "V100-32GB"]

A100 = node_of(find_gpu("A100-80GB"))
H100 = node_of(find_gpu("H100"))
B200 = node_of(find_gpu("B200"))
PCIE = node_of(find_gpu("RTX-4090"))


def mib(memory):
    return memory.least_bytes / MIB, memory.most_bytes / MIB


# What others have measured


def test_a_connection_has_the_sizes_of_nccls_own_log():
    assert CONNECTION_BYTES == 10_485_760 + 2_097_152  # NCCL_DEBUG_SUBSYS=ALLOC in NVIDIA/nccl#1685


def test_the_buffer_of_nvls_has_the_size_of_nccls_own_log():
    assert nvls_bytes(H100, 8) == 268_435_456  # "nvlsTotalSize 268435456", 8 H100, TorchInferno's benchmark


# NVIDIA/nccl#964 (2023-08) is from before connections were made as they are needed: all of them at once, and
# a pool for the network, which has 16 chunks of 512 KiB for each of 32 channels (NCCL_SHARED_STEPS,
# sharedNetBuffersInit in src/transport/net.cc); the tables of channels are counted nowhere.
POOL_BYTES = 32 * 16 * 512 * 1024


def test_a_communicator_of_two_or_four_a100_takes_what_was_measured_on_its_first_rank():
    assert ring_bytes(A100, 2) + tree_bytes(A100, 2) + POOL_BYTES == 544 * MIB
    # 688 MB on rank 0: at the end of a chain it has half of a tree's connections, 144 MiB less than others
    assert ring_bytes(A100, 4) + tree_bytes(A100, 4) // 2 + POOL_BYTES == 688 * MIB


def test_all_to_all_among_eight_h100_takes_what_was_measured():
    # 1.06 to 4.34 GB at the first all_to_all_single, where the communicator is made too (NVIDIA/nccl#1685,
    # 2025-04: an earlier release, whose kernels were not looked into)
    measured_bytes = (4.34 - 1.06) * 10**9
    taken_bytes = kernel_bytes(find_gpu("H100")) + setup_bytes(H100) + p2p_bytes(H100, 7)
    assert taken_bytes == pytest.approx(measured_bytes, rel=0.01)


def test_a_communicator_of_one_rank_takes_what_was_measured():
    # 484 MiB on an RTX 3090 (NVIDIA/nccl#2366): 388 for 64 channels, and 96, of which the kernels are 87
    alone = nccl_memory(find_gpu("RTX-3090"), [Communicator(1)])
    assert alone.least_bytes / MIB == pytest.approx(484, abs=10)
    assert alone.least_bytes - kernel_bytes(find_gpu("RTX-3090")) == 388 * MIB


# By hand from the sources


@pytest.mark.parametrize(
    ("node", "expected_mib"),
    [
        (A100, (3 * 32 + 2) * 2),
        (H100, (3 * 32 + 2 + 16 + 1) * 2),
        (B200, (3 * 32 + 2 + 24 + 1) * 2),
        (PCIE, (3 * 2 + 2) * 2),
    ],
    ids=["A100", "H100", "B200", "PCIe"],
)
def test_every_table_of_a_communicator_takes_a_granule(node, expected_mib):
    assert setup_bytes(node) == expected_mib * MIB


def test_two_ranks_need_no_more_for_trees_and_one_needs_no_connection():
    assert [ring_bytes(H100, ranks) / MIB for ranks in (1, 2, 8)] == [0, 288, 288]  # 24 channels of 12
    assert [tree_bytes(H100, ranks) / MIB for ranks in (1, 2, 3, 8)] == [0, 0, 288, 288]
    assert nvls_bytes(H100, 1) == 0


def test_the_most_is_everything_connected_and_the_least_is_rings():
    # 230 of tables, 288 of rings; 288 of trees and 256 of NVLS
    assert mib(communicator_memory(H100, Communicator(8))) == (518, 1062)


def test_peers_are_connected_on_all_their_channels():
    without, with_two = (communicator_memory(H100, Communicator(8, peers)) for peers in (0, 2))
    assert with_two.least_bytes - without.least_bytes == 2 * 32 * 12 * MIB


def test_buffers_that_can_be_the_hosts_count_only_for_the_most():
    # 16 of tables; rings, trees and one peer of 24 each, where the cards reach each other's memory
    assert mib(communicator_memory(PCIE, Communicator(4, peers=1))) == (16, 16 + 72)


def test_every_communicator_counts_and_the_kernels_once():
    h100 = find_gpu("H100")
    one, two = (nccl_memory(h100, [Communicator(8)] * number) for number in (1, 2))
    assert mib(one) == (518 + 192, 1062 + 192)
    assert mib(two) == (2 * 518 + 192, 2 * 1062 + 192)


def test_a_process_without_communicators_takes_nothing():
    assert nccl_memory(find_gpu("H100"), []) == NcclMemory(0, 0)


@pytest.mark.parametrize("ranks", [0, 9, 64])
def test_more_ranks_than_a_node_has_are_refused(ranks):
    with pytest.raises(ValueError, match=f"a communicator of {ranks} ranks: only those within one node"):
        communicator_memory(H100, Communicator(ranks))


# Which cards are known


@pytest.mark.parametrize("gpu", load_gpus().values(), ids=lambda gpu: gpu.name)
def test_a_card_is_in_a_node_of_its_kind_or_in_none(gpu):
    if gpu.name in UNKNOWN_CARDS:
        assert (node_of(gpu), nccl_memory(gpu, [Communicator(2)])) == (None, None)
    else:
        assert node_of(gpu).on_device == (gpu.name in NVSWITCH_CARDS)
        assert node_of(gpu).nvls_channels > 0 if gpu.capability[0] in (9, 10) else True


def test_a_card_runs_the_code_of_its_minor_or_of_an_older_one():
    assert {kernel_bytes(find_gpu(name)) for name in ("A100-40GB", "RTX-3090", "L4")} == {87 * MIB}
    assert kernel_bytes(find_gpu("T4")) == 88 * MIB
    assert kernel_bytes(find_gpu("V100-16GB")) is None  # 7.0, and the library's oldest is 7.5
