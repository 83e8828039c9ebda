"""Which ranks are to be estimated beside rank 0: wrong figures would pass unseen here."""

import os

import pytest
import torch
import torch.distributed as dist
from small_models import layers, train


def alike():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    model = torch.nn.parallel.DistributedDataParallel(layers(1).to(device), device_ids=[local_rank])
    train(model)


def test_without_stages_and_without_asking_the_first_and_the_last_represent_all(trace):
    traced = trace(alike, world_size=8)

    assert traced.representatives == [7]
    assert traced.rank_assumption == "ranks 0, 7 represent all 8: sharding gives rank 0 the most"


def test_of_two_ranks_nothing_is_taken_for_granted(trace):
    traced = trace(alike, world_size=2)

    assert traced.representatives == [1]
    assert traced.rank_assumption == ""


def test_one_gpu_has_no_other_ranks(trace):
    traced = trace(lonely)

    assert traced.value == [False, 1, None]
    assert traced.representatives == []
    assert traced.rank_assumption == ""


def lonely():
    return [dist.is_initialized(), torch.cuda.device_count(), os.environ.get("RANK")]


def asking(way):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("a", "b"))
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    {
        "get_rank": dist.get_rank,
        "RANK": lambda: os.environ["RANK"],
        "get": lambda: os.environ.get("RANK", "0"),
        "getenv": lambda: os.getenv("RANK"),
        "LOCAL_RANK": lambda: int(os.environ["LOCAL_RANK"]) == 0,
        "local rank": lambda: mesh.get_local_rank("a"),
        "coordinate": mesh.get_coordinate,
        "group": lambda: dist.group.WORLD.rank(),
        "nothing": lambda: None,
    }[way]()


@pytest.mark.parametrize(
    "way", ["get_rank", "RANK", "get", "getenv", "LOCAL_RANK", "local rank", "coordinate", "group"]
)
def test_code_that_asks_for_its_rank_is_run_as_every_rank(trace, way):
    traced = trace(asking, way, world_size=8)

    assert traced.representatives == [1, 2, 3, 4, 5, 6, 7]
    assert traced.rank_assumption == ""


def test_what_torch_asks_itself_does_not_count(trace):
    assert trace(asking, "nothing", world_size=8).representatives == [7]


def test_beyond_eight_ranks_the_assumption_says_where_the_rank_was_asked_for(trace):
    traced = trace(asking_once, world_size=64)

    assert traced.representatives == [63]
    assert "ranks 0, 63 represent all 64" in traced.rank_assumption
    assert "test_identical_ranks.py:" in traced.rank_assumption
    assert traced.rank_assumption.endswith("has asked for the rank is taken to need no more")


def asking_once():
    if dist.get_rank() == 5:
        torch.ones(2**20, device="cuda")


def used_otherwise():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.ones(1 + local_rank, device="cuda")


def test_a_local_rank_that_is_used_for_more_than_the_device_counts(trace):
    assert trace(used_otherwise, world_size=4).representatives == [1, 2, 3]


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    # rank 0 gets the 6 and the 1, rank 1 the 5 and the 4: 7 against 9
    sizes = (6, 5, 4, 1)
    parameters = [torch.nn.Parameter(torch.ones(256 * size, device="cuda")) for size in sizes]
    ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW)


def zero_redundancy_in_the_middle():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    # over three ranks: 6, 5 and 5 first, then the 4 to the first of those with 5
    parameters = [torch.nn.Parameter(torch.ones(256 * size, device="cuda")) for size in (6, 5, 5, 4)]
    ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW)


def test_a_rank_that_is_neither_first_nor_last_is_estimated_where_zero_1_gives_it_the_most(trace):
    assert trace(zero_redundancy_in_the_middle, world_size=3).representatives == [1, 2]


def test_the_rank_that_zero_1_gives_the_most_is_estimated(trace):
    # 6 and 5 first, then 4 to the rank with 5, then 1 to the rank with 6; the third to the fifth have nothing
    traced = trace(zero_redundancy, world_size=64, environ={"LOCAL_WORLD_SIZE": "8"})

    assert traced.representatives == [63]  # over 64 ranks the largest single parameter is rank 0's
    assert trace(zero_redundancy, world_size=2).representatives == [1]
