"""A rank on the stand-in finds what torchrun would have told it, and makes PyTorch's own process groups."""

import os

import pytest
import torch
import torch.distributed as dist


def who_am_i():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    return {
        **{name: os.environ[name] for name in names},
        "group": [dist.is_initialized(), dist.get_rank(), dist.get_world_size(), dist.get_backend()],
        "devices": [torch.cuda.device_count(), torch.cuda.current_device()],
        "default": str(torch.ones(1, device="cuda").device),
    }


@pytest.mark.parametrize(
    ("rank", "world_size", "local_rank", "node_gpus"), [(0, 2, 0, 2), (3, 8, 3, 8), (1021, 1024, 5, 8)]
)
def test_a_rank_gets_its_number_in_the_environment(on_rank, rank, world_size, local_rank, node_gpus):
    assert on_rank(who_am_i, rank=rank, world_size=world_size).value == {
        "RANK": str(rank), "LOCAL_RANK": str(local_rank), "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(node_gpus), "GROUP_RANK": str(rank // 8), "MASTER_ADDR": "localhost",
        "group": [True, rank, world_size, "nccl"],
        "devices": [node_gpus, local_rank],
        "default": f"cuda:{local_rank}",
    }  # fmt: skip


def test_the_environment_says_how_many_gpus_a_node_has(on_rank):
    environ = {"LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "head", "MASTER_PORT": "1"}

    found = on_rank(who_am_i, rank=5, world_size=8, environ=environ).value

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
    return [*found, dist.is_initialized()]


def test_a_body_written_for_torchrun_makes_its_groups_and_destroys_them(on_rank):
    ran = on_rank(as_for_torchrun, rank=3, world_size=8)

    assert ran.value == [2, 1, [0, 3], False]
    assert sorted(ran.groups.values()) == [[2, []], [8, []]]


def refused(what):
    dist.init_process_group("nccl")
    try:
        {
            "twice": lambda: dist.init_process_group("nccl"),
            "host tensor": lambda: dist.all_reduce(torch.ones(1)),
            "splits": lambda: dist.all_to_all_single(
                torch.empty(8, device="cuda"), torch.ones(8, device="cuda"), [4, 4], [1, 1]
            ),
        }[what]()
    except Exception as error:
        return str(error)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("twice", "trying to initialize the default process group twice!"),
        ("host tensor", "No backend type associated with device type cpu"),
        ("splits", "Split sizes doesn't match total dim 0 size"),
    ],
)
def test_mistakes_are_torchs_own_errors(on_rank, what, text):
    assert text in on_rank(refused, what).value


def of_another_size():
    try:
        dist.init_process_group("nccl", rank=0, world_size=4)
    except ValueError as error:
        return str(error)


def test_a_group_of_another_size_than_the_tests_is_an_error(on_rank):
    text = "init_process_group(world_size=4): the test runs with world_size=2"
    assert on_rank(of_another_size).value == text


def on_the_host():
    dist.init_process_group("cpu:gloo,cuda:nccl")
    counter = torch.tensor([3])
    dist.all_reduce(counter)
    return [dist.get_backend(), counter.tolist()]


def test_what_gloo_serves_is_answered_too(on_rank):
    assert on_rank(on_the_host, world_size=4).value == ["cpu:gloo,cuda:nccl", [12]]


def on_the_host_unnamed():
    dist.init_process_group()
    try:
        dist.all_reduce(torch.tensor([3]))
    except RuntimeError as error:
        return [dist.get_backend(), str(error)]


def test_a_group_of_no_named_backend_is_for_cards(on_rank):
    """``BackendConfig``: of the accelerator that is there; ``get_backend`` says what was asked for."""
    shown, text = on_rank(on_the_host_unnamed, world_size=4).value
    assert shown == "undefined"
    assert "No backend type associated with device type cpu" in text


def of_the_launchers():
    counter = torch.tensor([3])
    dist.all_reduce(counter)
    return [dist.get_backend(), counter.tolist()]


def test_the_launchers_group_serves_the_host_too(on_rank):
    assert on_rank(of_the_launchers, world_size=4).value == ["nccl", [12]]


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
    ]


def test_meshes_are_torchs_own(on_rank):
    ran = on_rank(meshes, rank=6, world_size=8)

    assert ran.value == [[1, 2], [1, 1, 0], [2, 6], [4, 5, 6, 7], 2]
    assert list(ran.groups.values()) == [[2, []]]
