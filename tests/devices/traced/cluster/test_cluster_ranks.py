"""A rank of a virtual cluster finds what torchrun would have told it."""

import os

import pytest
import torch
import torch.distributed as dist


def who_am_i():
    names = (
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    )  # fmt: skip
    return {
        **{name: os.environ[name] for name in names},
        "group": [dist.is_initialized(), dist.get_rank(), dist.get_world_size(), dist.get_backend()],
        "devices": [torch.cuda.device_count(), torch.cuda.current_device()],
        "default": str(torch.ones(1, device="cuda").device),
    }


@pytest.mark.parametrize(
    ("rank", "world_size", "local_rank", "node_gpus"), [(0, 2, 0, 2), (3, 8, 3, 8), (1021, 1024, 5, 8)]
)
def test_a_rank_gets_its_number_in_the_environment(trace, rank, world_size, local_rank, node_gpus):
    found = trace(who_am_i, rank=rank, world_size=world_size).value

    assert found == {
        "RANK": str(rank), "LOCAL_RANK": str(local_rank), "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(node_gpus), "GROUP_RANK": str(rank // 8),
        "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
        "group": [True, rank, world_size, "nccl"],
        "devices": [node_gpus, local_rank],
        "default": f"cuda:{local_rank}",
    }  # fmt: skip


def test_the_environment_says_how_many_gpus_a_node_has(trace):
    environ = {"LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "head", "MASTER_PORT": "1"}

    found = trace(who_am_i, rank=5, world_size=8, environ=environ).value

    assert (found["LOCAL_RANK"], found["GROUP_RANK"]) == ("1", "1")
    assert found["devices"] == [4, 1]
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("head", "1")


def one_gpu():
    return [dist.is_initialized(), torch.cuda.device_count(), os.environ.get("RANK")]


def test_a_test_of_one_gpu_has_no_group(trace):
    assert trace(one_gpu).value == [False, 1, None]


def as_for_torchrun():
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    values = torch.ones(256, device="cuda")
    dist.all_reduce(values)
    dist.barrier()
    group = dist.new_group([0, 3])
    found = [dist.get_world_size(group), dist.get_rank(group), dist.get_process_group_ranks(group)]
    dist.destroy_process_group()
    return [*found, dist.is_initialized()]


def test_a_body_written_for_torchrun_makes_its_group_and_destroys_it(trace):
    traced = trace(as_for_torchrun, rank=3, world_size=8)

    assert traced.value == [2, 1, [0, 3], False]


def twice():
    dist.init_process_group("nccl")
    try:
        dist.init_process_group("nccl")
    except ValueError as error:
        return str(error)


def test_a_body_that_makes_its_group_twice_gets_torchs_error(trace):
    assert trace(twice, world_size=2).value == "trying to initialize the default process group twice!"


def of_another_size():
    try:
        dist.init_process_group("nccl", rank=0, world_size=4)
    except ValueError as error:
        return str(error)


def test_a_group_of_another_size_than_the_tests_is_an_error(trace):
    assert trace(of_another_size, world_size=2).value == (
        "init_process_group(world_size=4): the test runs with world_size=2"
    )


def host_tensors_with(backend):
    dist.init_process_group(backend)
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        return str(error)
    return dist.get_backend()


def test_a_backend_serves_the_devices_that_it_serves(trace):
    assert (
        "No backend type associated with device type cpu"
        in trace(host_tensors_with, "nccl", world_size=2).value
    )
    assert trace(host_tensors_with, "cpu:gloo,cuda:nccl", world_size=2).value == "cpu:gloo,cuda:nccl"


def test_a_group_of_no_named_backend_is_for_cards(trace):
    """``BackendConfig``: of the accelerator that is there; ``get_backend`` says what was asked for."""
    text = trace(host_tensors_with, None, world_size=2).value
    assert "No backend type associated with device type cpu" in text
    assert trace(shown_with, None, world_size=2).value == "undefined"


def shown_with(backend):
    dist.init_process_group(backend)
    return dist.get_backend()


def of_the_launchers():
    dist.all_reduce(torch.ones(1))
    return dist.get_backend()


def test_the_launchers_group_serves_the_host_too(trace):
    assert trace(of_the_launchers, world_size=2).value == "nccl"


def own_device(way):
    index = torch.cuda.current_device()
    values = {
        "string": lambda: torch.zeros(1024, device=f"cuda:{index}"),
        "number": lambda: torch.zeros(1024).to(index),
        "cuda": lambda: torch.zeros(1024).cuda(),
        "cuda number": lambda: torch.zeros(1024).cuda(index),
        "to": lambda: torch.zeros(1024).to("cuda"),
        "tensor": lambda: torch.tensor([0.0] * 1024, device="cuda"),
        "module": lambda: torch.nn.Linear(32, 32, bias=False).to("cuda").weight,
        "context": lambda: in_context(index),
    }[way]()
    both = torch.zeros(1024, device="cuda") + values.detach().reshape(-1)
    return [str(values.device), str(both.device)]


def in_context(index):
    with torch.cuda.device(index):
        return torch.zeros(1024, device="cuda")


@pytest.mark.parametrize(
    "way", ["string", "number", "cuda", "cuda number", "to", "tensor", "module", "context"]
)
def test_the_ranks_own_gpu_is_the_modelled_one(trace, way):
    traced = trace(own_device, way, rank=3, world_size=4)

    assert traced.value == ["cuda:3", "cuda:3"]
    assert traced.allocated >= 2 * 4096


def another_ranks_device(way):
    try:
        {
            "factory": lambda: torch.zeros(1, device="cuda:2"),
            "first": lambda: torch.zeros(1, device="cuda:0"),
            "to": lambda: torch.zeros(1).to("cuda:2"),
            "cuda": lambda: torch.zeros(1).cuda(0),
            "set": lambda: torch.cuda.set_device(2),
            "context": lambda: in_context(2),
        }[way]()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("way", ["factory", "first", "to", "cuda", "set", "context"])
def test_another_ranks_gpu_is_an_error_that_says_so(trace, way):
    text = trace(another_ranks_device, way, rank=3, world_size=4).value

    assert "is the GPU of another rank: rank 3 of 4 has cuda:3 of its node" in text
    assert 'write device="cuda"' in text


def a_gpu_that_is_not_there():
    try:
        torch.zeros(1, device="cuda:4")
    except RuntimeError as error:
        return str(error)


def test_a_gpu_that_the_node_has_not_is_an_invalid_ordinal(trace):
    assert "invalid device ordinal" in trace(a_gpu_that_is_not_there, rank=3, world_size=4).value


def meshes():
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    three = init_device_mesh("cuda", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    flat = three["dp", "tp"]._flatten("both")
    by_tensor = DeviceMesh("cuda", torch.arange(8).view(2, 4))
    return [
        list(init_device_mesh("cuda", (8,)).get_coordinate()),
        list(init_device_mesh("cuda", (2, 4)).get_coordinate()),
        list(three.get_coordinate()),
        three["tp"].size(),
        dist.get_process_group_ranks(three.get_group("pp")),
        dist.get_process_group_ranks(flat.get_group()),
        by_tensor.get_local_rank(1),
        three.mesh.tolist(),
    ]


def test_meshes_of_one_to_three_dimensions_are_made_of_real_numbers(trace):
    assert trace(meshes, rank=6, world_size=8).value == [
        [6], [1, 2], [1, 1, 0], 2, [2, 6], [4, 5, 6, 7], 2, [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
    ]  # fmt: skip


def objects():
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"rows": 3})
    shared = ["a", 7]
    dist.broadcast_object_list(shared, src=0)
    return [everyone, shared]


def test_objects_of_other_ranks_are_this_ones(trace):
    assert trace(objects, world_size=2).value == [[{"rows": 3}, {"rows": 3}], ["a", 7]]


def alike():
    import torch.distributed._functional_collectives as funcol

    def summed(values, op=dist.ReduceOp.SUM):
        tensor = torch.tensor(values, device="cuda")
        dist.all_reduce(tensor, op=op)
        return tensor.tolist()

    ops = dist.ReduceOp
    rows, whole = torch.tensor([2, 5], device="cuda"), torch.empty(6, dtype=torch.long, device="cuda")
    dist.all_gather_into_tensor(whole, rows)
    parts = [torch.empty(2, dtype=torch.long, device="cuda") for _ in range(3)]
    dist.all_gather(parts, rows)
    one = torch.ones(1, device="cuda")
    counted = torch.zeros(3, device="cuda")
    dist.all_gather(list(counted.chunk(3)), one)  # the parts of one tensor
    return [
        counted.sum().item(),
        summed([1, 3]), summed([0], ops.MAX), summed([4], ops.AVG), summed([2], ops.PRODUCT),
        summed([7], ops.MIN), whole.tolist(), [part.tolist() for part in parts],
        funcol.all_reduce(rows, "sum", dist.group.WORLD).tolist(),
        funcol.all_gather_tensor(rows, 0, dist.group.WORLD).tolist(),
    ]  # fmt: skip


def test_numbers_that_are_known_of_a_rank_are_taken_to_be_those_of_all(trace):
    """Three ranks. A flag that none of them raises stays down."""
    run = trace(alike, world_size=3)

    gathered = [2, 5, 2, 5, 2, 5]
    assert run.value == [3.0, [3, 9], [0], [4], [8], [7], gathered, [[2, 5]] * 3, [6, 15], gathered]
    assert any("reads a int64 value" in text or "reads an int64" in text for text in run.report.assumptions)


def told_by_rank_0():
    """As a script has it: rank 0 reads the configuration, and counts."""
    rank = dist.get_rank()
    shared = [{"layers": 3, "name": "a"}, object(), (1, 2)] if rank == 0 else [None] * 3
    dist.broadcast_object_list(shared, src=0)
    rows = torch.tensor([5, 7] if rank == 0 else [-1, -1], device="cuda")
    dist.broadcast(rows, src=0)
    drawn = torch.rand(2, device="cuda")
    dist.broadcast(drawn, src=0)
    pair = dist.new_group([1, 2])
    if rank:
        own = torch.tensor([rank], device="cuda")
        dist.broadcast(own, src=1, group=pair)
    last = torch.tensor(9 if rank == 0 else 0, device="cuda")
    dist.broadcast(last, src=0)
    part = [None]
    dist.scatter_object_list(part, ["a", "b", "c"] if rank == 0 else None, src=0)
    return [shared[0], shared[2], rows.tolist(), last.item(), part[0], own.item() if rank else None]


def test_the_other_ranks_have_what_rank_0_broadcasts(trace):
    first = trace(told_by_rank_0, world_size=3)
    second = trace(told_by_rank_0, rank=2, world_size=3, rank0_broadcasts=first.broadcasts)

    whole = [{"layers": 3, "name": "a"}, [1, 2], [5, 7], 9]
    assert first.value == [*whole, "a", None]
    assert second.value == [*whole, "c", 2]  # the pair's own broadcast is not rank 0's
    assert second.broadcasts == ""


def test_without_rank_0_a_rank_has_what_is_its_own(trace):
    with pytest.raises(AssertionError, match="scatter_object_list gives what another rank has"):
        trace(told_by_rank_0, rank=2, world_size=3)


def large():
    weight = torch.ones(2**20, device="cuda")
    dist.broadcast(weight, src=0)
    state = {"weight": torch.rand(4, device="cuda"), "rows": list(range(2**17))}
    dist.broadcast_object_list([state, float("nan"), {"a": [1, {2.5}]}], src=0)


def test_weights_and_objects_that_are_no_plain_data_are_not_handed_on(trace):
    """A text of the first object would be long, and read its tensors; equal weights go as their one value."""
    run = trace(large, world_size=2)

    ones = '["0", [["torch.float32", [1048576], 1]]]'
    assert run.broadcasts == f'[{ones}, ["0", [null, null, "{{\'a\': [1, {{2.5}}]}}"]]]'
    assert not any("reads" in text for text in run.report.assumptions)


def test_what_nobody_could_use_is_not_handed_on(trace):
    assert trace(objects, world_size=2).broadcasts == '[["0", ["\'a\'", "7"]]]'
    assert trace(meshes, rank=0, world_size=8).broadcasts == ""


def exchanged(output_rows, input_rows):
    given, output = torch.ones(8, 256, device="cuda"), torch.empty(sum(output_rows), 256, device="cuda")
    try:
        dist.all_to_all_single(output, given, output_rows, input_rows)
    except RuntimeError as error:
        return str(error)
    except Exception as error:
        return str(error)


def test_rows_are_exchanged_in_splits_that_add_up(trace):
    assert trace(exchanged, [4, 4], [4, 4], world_size=2).value is None
    text = trace(exchanged, [4, 4], [1, 1], world_size=2).value
    assert "the input split sizes [1, 1] do not add up to its 8 rows" in text


def gathered_in_a_list():
    parts = [torch.empty(MANY, device="cuda") for _ in range(4)]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    dist.all_gather(parts, torch.ones(MANY, device="cuda"))
    return torch.cuda.max_memory_allocated() - before


MANY = 2**20


def test_a_list_is_gathered_by_way_of_one_tensor(trace):
    # what is sent, and ProcessGroupNCCL's flat copy of all four parts
    assert trace(gathered_in_a_list, world_size=4).value == 4 * MANY + 4 * 4 * MANY
