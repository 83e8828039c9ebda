"""Sharded and replicated training on one rank of the stand-in: what a rank holds. All sizes by hand."""

import pytest
import torch
import torch.distributed as dist
from small_models import LAYER, LAYERS, layers, train
from test_cluster_fsdp import fully_sharded, offloaded, uneven, wrapped
from test_cluster_replicas import plain, with_views, zero_redundancy
from test_cluster_tensors import MATRIX, WIDTH, experts, tensor_parallel
from test_prefetched import prefetched
from test_sequence_parallel import HIDDEN, ROWS, kept_for_backward

WHOLE = LAYERS * LAYER
#: What a matrix product in fp32 takes beside its result on an A100: cuBLAS's workspaces of two handles, the
#: forward's and the backward's (CUDABlas.cpp), at most.
WORKSPACES = 2 * 8_519_680
SMALL = 2**20


def test_fsdp_2_holds_shards_and_gathers_two_layers(on_rank):
    ran = on_rank(fully_sharded, world_size=8)

    # parameters and two states, in eighths; in backward the layer's whole parameter, the next one's
    # all-gather and the reduce-scatter of the one before; the layer's whole gradient
    least = 3 * WHOLE // 8 + 3 * LAYER + LAYER
    assert least <= ran.allocated <= least + 2 * LAYER // 8 + WORKSPACES + SMALL
    assert ran.value in (WHOLE // 8, WHOLE // 8 + WORKSPACES)
    gathered = [size for size, kept in ran.noted if kept and size == LAYER]
    assert len(gathered) >= 2 * 2 * LAYERS  # each layer, forward and backward, two steps


def test_all_ranks_of_even_shards_take_the_same(on_rank):
    first, last = on_rank(fully_sharded, world_size=8), on_rank(fully_sharded, rank=7, world_size=8)

    assert (first.allocated, first.reserved) == (last.allocated, last.reserved)


def test_mixed_precision_gathers_in_bf16(on_rank):
    plain_run, mixed = (on_rank(fully_sharded, how, world_size=8) for how in ("plain", "mixed"))

    # two gathered parameters of the three buffers are half as large, and so is the whole gradient
    less = plain_run.allocated - mixed.allocated
    assert 2 * LAYER // 2 <= less <= 3 * LAYER // 2 + 2 * LAYER // 8


def test_hybrid_shards_are_quarters(on_rank):
    ran = on_rank(fully_sharded, "hybrid", world_size=8)

    assert ran.value in (WHOLE // 4, WHOLE // 4 + WORKSPACES)
    assert sorted(size for size, _ in ran.groups.values()) == [2, 4]


@pytest.mark.parametrize(("rank", "rows"), [(0, 4), (2, 4), (3, 1)])
def test_torch_chunk_gives_the_first_ranks_the_most(on_rank, rank, rows):
    # 13 rows over 4 ranks: 4, 4, 4, 1
    assert on_rank(uneven, 13, rank=rank, world_size=4).value == rows * 256 * 4


def test_offloaded_shards_leave_nothing_on_the_card(on_rank):
    assert on_rank(offloaded, True, world_size=8).value in (0, WORKSPACES)


def test_fsdp_1_runs(on_rank):
    ran = on_rank(wrapped, world_size=8)

    assert ran.allocated >= 3 * WHOLE // 8 + 2 * LAYER
    assert [LAYER, True] in ran.noted


@pytest.mark.parametrize("legacy", ["0", "1"], ids=["legacy", "current"])
@pytest.mark.parametrize(("body", "copies"), [(plain, 6), (with_views, 5)])
def test_ddp_has_buckets_in_addition_to_gradients_or_in_their_place(on_rank, body, copies, legacy):
    """Whatever ProcessGroupNCCL's watchdog does meanwhile, and with both generations of it."""
    ran = on_rank(body, environ={"TORCH_DIST_USE_NCCL2": legacy})

    # parameters, gradients, two states, and the square roots of AdamW's list; the buckets, if they are others
    assert ran.allocated - copies * WHOLE in (0, *range(1, SMALL))


def ddp_buckets():
    model = torch.nn.parallel.DistributedDataParallel(layers(8).cuda())
    train(model, steps=3)


def test_ddp_s_buckets_are_noted(on_rank):
    noted = on_rank(ddp_buckets).noted

    # the first bucket is closed at 1 MiB, the others at 25 MiB; in the first backward all is in one order
    assert [LAYER, True] in noted
    assert [7 * LAYER, True] in noted


@pytest.mark.parametrize(("rank", "mine"), [(0, 2), (1, 1), (2, 1)])
def test_zero_1_has_the_states_of_the_ranks_own_parameters(on_rank, rank, mine):
    # four layers over three ranks: the first takes the fourth; parameters, gradients and buckets are whole;
    # the square roots of AdamW's list
    ran = on_rank(zero_redundancy, 4, rank=rank, world_size=3)

    held = 3 * WHOLE + 2 * mine * LAYER + mine * LAYER
    assert held <= ran.allocated <= held + WORKSPACES + SMALL


def test_tensor_parallel_matrices_are_split(on_rank):
    ran = on_rank(tensor_parallel, rank=7, world_size=8)

    share = 4 * MATRIX // 8
    assert ran.value == [256, WIDTH]
    assert 4 * share <= ran.allocated <= 5 * share + WORKSPACES + 8 * SMALL


def test_a_rank_has_its_own_experts_and_sends_to_three_others(on_rank):
    ran = on_rank(experts, world_size=4)

    assert ran.allocated >= 4 * 2 * 2 * MATRIX
    assert ran.groups == {"0": [4, [1, 2, 3]]}


@pytest.mark.parametrize("ahead", [0, 2])
def test_layers_are_gathered_ahead(on_rank, ahead):
    for index, one in enumerate(on_rank(prefetched, ahead, world_size=8).value):
        coming = min(ahead, LAYERS - 1 - index)
        assert one == (2 + coming) * LAYER + (16 * 1024 * 4 if index else 0)


def test_the_input_of_a_collective_that_nobody_has_waited_for_is_kept(on_rank):
    """The last layer's rows go to a reduce-scatter, and its work holds them until it is waited for."""
    shape, kept = on_rank(kept_for_backward, True, world_size=8).value

    rows = ROWS * WIDTH * 4
    hidden = 2 * ROWS * HIDDEN // 8 * 4
    assert shape == [ROWS // 8, WIDTH]
    assert kept == 2 * (rows + hidden) + rows // 8 + rows


def flat_copies():
    parts = [torch.empty(SMALL, device="cuda") for _ in range(4)]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    dist.all_gather(parts, torch.ones(SMALL, device="cuda"))
    return torch.cuda.max_memory_allocated() - before


def test_the_older_nccl_group_gathers_a_list_by_way_of_one_tensor(on_rank):
    # what is sent, and ProcessGroupNCCL's flat copy of all four parts
    ran = on_rank(flat_copies, world_size=4, environ={"TORCH_DIST_USE_NCCL2": "0"})

    assert ran.value == 4 * SMALL + 4 * 4 * SMALL
