"""A rank on the stand-in finds what torchrun would have told it, and makes PyTorch's own process groups."""

import gc
import os

import pytest
import torch
import torch.distributed as dist

from pytest_membudget.devices.stand_in.ranks.ranks import StandInRanks


def groups():
    """Size and peers of the process groups that have communicated on cards."""
    (ranks,) = (one for one in gc.get_objects() if isinstance(one, StandInRanks))
    return sorted([group.size, sorted(group.peers)] for group in ranks.groups.values())


def who_am_i():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    return {
        **{name: os.environ[name] for name in names},
        "group": [dist.is_initialized(), dist.get_rank(), dist.get_world_size(), dist.get_backend()],
        "devices": [torch.cuda.device_count(), torch.cuda.current_device()],
        "default": str(torch.ones(1, device="cuda").device),
    }


def compared():
    """As by TORCH_DISTRIBUTED_DEBUG=DETAIL: gloo compares what ranks call, and needs all of them."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    return as_for_torchrun()


def test_ranks_whose_calls_are_compared_run_alone(trace):
    assert trace(compared, rank=3, world_size=8).value == trace(as_for_torchrun, rank=3, world_size=8).value


@pytest.mark.parametrize(
    ("rank", "world_size", "local_rank", "node_gpus"), [(0, 2, 0, 2), (3, 8, 3, 8), (1021, 1024, 5, 8)]
)
def test_a_rank_gets_its_number_in_the_environment(trace, rank, world_size, local_rank, node_gpus):
    assert trace(who_am_i, rank=rank, world_size=world_size).value == {
        "RANK": str(rank), "LOCAL_RANK": str(local_rank), "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(node_gpus), "GROUP_RANK": str(rank // 8), "MASTER_ADDR": "localhost",
        "group": [True, rank, world_size, "nccl"],
        "devices": [node_gpus, local_rank],
        "default": f"cuda:{local_rank}",
    }  # fmt: skip


def test_the_environment_says_how_many_gpus_a_node_has(trace):
    environ = {"LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "head", "MASTER_PORT": "1"}

    found = trace(who_am_i, rank=5, world_size=8, environ=environ).value

    assert (found["LOCAL_RANK"], found["GROUP_RANK"], found["LOCAL_WORLD_SIZE"]) == ("1", "1", "4")
    assert (found["MASTER_ADDR"], found["devices"][1]) == ("head", 1)


def as_for_torchrun():
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.all_reduce(torch.ones(256, device="cuda"))
    dist.barrier()
    group = dist.new_group([0, 3])
    dist.all_reduce(torch.ones(256, device="cuda"), group=group)
    found = [dist.get_world_size(group), dist.get_rank(group), dist.get_process_group_ranks(group)]
    dist.destroy_process_group()
    return [*found, dist.is_initialized(), groups()]


def test_a_body_written_for_torchrun_makes_its_groups_and_destroys_them(trace):
    ran = trace(as_for_torchrun, rank=3, world_size=8)

    assert ran.value == [2, 1, [0, 3], False, [[2, []], [8, []]]]


def meshes():
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    three = init_device_mesh("cuda", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    by_tensor = DeviceMesh("cuda", torch.arange(8).view(2, 4))
    dist.all_reduce(torch.ones(1, device="cuda"), group=three.get_group("tp"))
    return [
        list(init_device_mesh("cuda", (2, 4)).get_coordinate()),
        list(three.get_coordinate()),
        dist.get_process_group_ranks(three.get_group("pp")),
        dist.get_process_group_ranks(three["dp", "tp"]._flatten("both").get_group()),
        by_tensor.get_local_rank(1),
        groups(),
    ]


def test_meshes_are_torchs_own(trace):
    found = trace(meshes, rank=6, world_size=8).value

    assert found == [[1, 2], [1, 1, 0], [2, 6], [4, 5, 6, 7], 2, [[2, []]]]


def refused(what):
    if what != "another size":
        dist.init_process_group(None if what == "no named backend" else "nccl")
    tensor = torch.ones(8, device="cuda")
    try:
        {
            "twice": lambda: dist.init_process_group("nccl"),
            "another size": lambda: dist.init_process_group("nccl", rank=0, world_size=4),
            "host tensor": lambda: dist.all_reduce(torch.ones(1)),
            "no named backend": lambda: dist.all_reduce(torch.ones(1)),
            "splits": lambda: dist.all_to_all_single(torch.empty_like(tensor), tensor, [4, 4], [1, 1]),
        }[what]()
    except Exception as error:
        return str(error)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("twice", "trying to initialize the default process group twice!"),
        ("another size", "init_process_group(world_size=4): the test runs with world_size=2"),
        ("host tensor", "No backend type associated with device type cpu"),
        # ``BackendConfig``: it is of the accelerator that is there
        ("no named backend", "No backend type associated with device type cpu"),
        ("splits", "Split sizes doesn't match total dim 0 size"),
    ],
)
def test_mistakes_are_torchs_own_errors(trace, what, text):
    assert text in trace(refused, what, world_size=2).value


def on_the_host(backend):
    if backend is not None:
        dist.init_process_group(backend)
    counter = torch.tensor([3])
    dist.all_reduce(counter)
    return [dist.get_backend(), counter.tolist()]


@pytest.mark.parametrize(("backend", "shown"), [("cpu:gloo,cuda:nccl", None), (None, "nccl")])
def test_what_gloo_serves_is_answered_too(trace, backend, shown):
    """In a group that names it, and in the launcher's."""
    assert trace(on_the_host, backend, world_size=4).value == [shown or backend, [12]]
