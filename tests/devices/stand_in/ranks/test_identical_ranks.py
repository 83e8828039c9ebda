"""Which ranks are to be estimated beside rank 0: wrong figures would pass unseen here."""

import os
import sys
import time

import pluggy
import pytest
import torch
import torch.distributed as dist
from small_models import layers, train
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_membudget.devices.stand_in.ranks.rank_comparisons import Comparisons
from pytest_membudget.devices.stand_in.ranks.rank_reads import RankReads
from pytest_membudget.tracking.running_code.source import users_source


def alike():
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", local_rank)
    train(torch.nn.parallel.DistributedDataParallel(layers(1).to(device), device_ids=[local_rank]))


def lonely():
    assert [dist.is_initialized(), torch.cuda.device_count(), os.environ.get("RANK")] == [False, 1, None]


@pytest.mark.parametrize(
    ("body", "world_size", "ranks", "assumption"),
    [
        (alike, 8, [7], "ranks 0, 7 represent all 8: sharding gives rank 0 the most"),
        (alike, 2, [1], ""),  # of two nothing is taken for granted
        (lonely, 1, [], ""),
    ],
)
def test_without_stages_and_without_asking_the_first_and_the_last_represent_all(
    trace, body, world_size, ranks, assumption
):
    traced = trace(body, world_size=world_size)

    assert (traced.representatives, traced.rank_assumption) == (ranks, assumption)


ASKING = {
    "get_rank": lambda mesh: dist.get_rank(),
    "RANK": lambda mesh: os.environ["RANK"],
    "get": lambda mesh: os.environ.get("RANK", "0"),
    "getenv": lambda mesh: os.getenv("RANK"),
    "in a loop": lambda mesh: [os.environ[name] for name in ("WORLD_SIZE", "RANK")],
    "LOCAL_RANK": lambda mesh: int(os.environ["LOCAL_RANK"]) == 0,
    "local rank": lambda mesh: mesh.get_local_rank("a"),
    "coordinate": lambda mesh: mesh.get_coordinate(),
    "group": lambda mesh: dist.group.WORLD.rank(),
    "stored": lambda mesh: called(mesh.get_coordinate),
    "by name": lambda mesh: getattr(mesh, "get_" + "coordinate")(),
    "in a mode": lambda mesh: Asking(mesh.get_coordinate).operate(),
    "for its data": lambda mesh: torch.utils.data.DistributedSampler(range(9)),
    "in a list": lambda mesh: listed(map(mesh.get_local_rank, ["a"])),
    "by a builtin of an operator's name": lambda mesh: largest(map(mesh.get_local_rank, ["a"])),
}


def called(function):
    return function()


def listed(values):
    return [*values]


def largest(values):
    return max(values)


class Asking(TorchDispatchMode):
    """Asks while an operator is dispatched, as PyTorch's C++ does itself."""

    def __init__(self, ask):
        super().__init__()
        self.ask = ask

    def operate(self):
        with self:
            torch.ones(1)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        called(self.ask)
        return func(*args, **(kwargs or {}))


def asking(way):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("a", "b"))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if way:
        ASKING[way](mesh)


@pytest.mark.parametrize("way", ASKING)
def test_code_that_asks_for_its_rank_is_run_as_every_rank(trace, way):
    traced = trace(asking, way, world_size=8)

    assert traced.representatives == [1, 2, 3, 4, 5, 6, 7]
    assert traced.rank_assumption == ""


def asking_once():
    rank = dist.get_rank()
    if rank == 5 or str(rank) in ("40", "100") or rank in (-2, dist.get_world_size() - 3):
        torch.ones(2**20, device="cuda")


def test_beyond_eight_ranks_the_ends_of_machines_run_one_between_and_those_with_a_number_in_the_code(trace):
    traced = trace(asking_once, world_size=64)

    # machines of 8: the first ends with 7, the last begins with 56, and the one in the middle with 32; this
    # file compares ranks with 0, 1, 5, 40, 64 - 3 and with 100, which is none
    assert traced.representatives == [1, 5, 7, 36, 40, 56, 61, 63]
    assert traced.tried == [7, 36, 56]
    assert "ranks 0, 1, 5, 7, 36, 40, 56, 61, 63 represent all 64" in traced.rank_assumption
    assert "test_identical_ranks.py:" in traced.rank_assumption
    assert traced.rank_assumption.endswith("has asked for the rank is taken to need no more")


def used_otherwise():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.ones(1 + local_rank, device="cuda")


def zero_1(*sizes):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    parameters = [torch.nn.Parameter(torch.ones(256 * size, device="cuda")) for size in sizes]
    ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW)


def copying_the_environment():
    dict(os.environ), [name for name, value in os.environ.items() if value == "?"]


def dispatching():
    """Operators whose backward keeps their result: autograd's C++ detaches it, outside of every dispatch."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (8,))
    weight = distribute_tensor(torch.ones(8, 8, device="cuda", requires_grad=True), mesh, [Shard(0)])
    for _ in range(3):
        torch.rsqrt(weight + 1)
        weight.exp()


@pytest.mark.parametrize(
    ("body", "sizes", "world_size", "ranks"),
    [
        (asking, [""], 8, [7]),  # what torch asks itself does not count
        (copying_the_environment, [], 8, [7]),
        # nor what it asks on behalf of an operator, which Python tells from 3.11 on
        (dispatching, [], 8, [7] if sys.version_info >= (3, 11) else [*range(1, 8)]),
        (used_otherwise, [], 4, [1, 2, 3]),  # a local rank that is used for more than the device counts
        # 6 and 5 first, then 4 to the rank with 5, then 1 to the rank with 6
        (zero_1, [6, 5, 4, 1], 2, [1]),
        # over 64 ranks the largest single parameter is rank 0's
        (zero_1, [6, 5, 4, 1], 64, [63]),
        # over three ranks: 6, 5 and 5 first, then the 4 to the first of those with 5
        (zero_1, [6, 5, 5, 4], 3, [1, 2]),
    ],
)
def test_the_ranks_that_may_have_the_most_are_estimated(trace, body, sizes, world_size, ranks):
    environ = {f"OTHER_{number}": "" for number in range(16)} | {"LOCAL_WORLD_SIZE": str(min(8, world_size))}
    traced = trace(body, *sizes, world_size=world_size, environ=environ)

    assert traced.representatives == ranks


def staged_without_rank():
    """Four stages of 16 ranks each; only the mesh knows which this is."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage

    mesh = init_device_mesh("cuda", (4, 16), mesh_dim_names=("pp", "dp"))
    stage = torch.nn.Linear(256, 256, bias=False).cuda()
    PipelineStage(stage, 0, 4, torch.device("cuda"), group=mesh.get_group("pp"))


def test_a_rank_of_each_stage_is_to_be_estimated(trace):
    traced = trace(staged_without_rank, world_size=64)

    assert traced.representatives == [16, 32, 48, 63]
    assert "and there is a rank of each pipeline stage" in traced.rank_assumption


def test_where_a_library_asks_all_of_the_users_files_may_pick():
    reads = RankReads(users_source())
    reads.lines[pluggy.__file__.replace("pluggy", "other"), 1] = None

    assert {5, 40, 61} <= reads.picked(64, 0)  # this file compares ranks with 5, 40 and 64 - 3
    assert not reads.has_names(64, 0)


def test_ranks_that_a_file_picks_are_found_in_time_of_any_number(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("even = rank % 2 == 0\nmany = rank % 8 != 0\none = rank == 5\n")

    began = time.process_time()
    picked = Comparisons(str(file)).picked(2**16, 0)

    assert picked == {1, 2**16 - 1, 0, 2**16 - 8, 5}
    assert time.process_time() - began < 5  # it was 36 where each rank was sought among the others
