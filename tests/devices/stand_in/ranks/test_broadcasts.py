"""What a rank on the stand-in is told by others, which are not there: numbers and objects."""

import json

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import pytest_membudget


def alike():
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
        functional.all_reduce(rows, "sum", dist.group.WORLD).tolist(),
        functional.all_gather_tensor(rows, 0, dist.group.WORLD).tolist(),
    ]  # fmt: skip


def test_numbers_that_are_known_of_a_rank_are_taken_to_be_those_of_all(trace):
    """Three ranks. A flag that none of them raises stays down."""
    gathered = [2, 5, 2, 5, 2, 5]

    assert trace(alike, world_size=3).value == [
        3.0, [3, 9], [0], [4], [8], [7], gathered, [[2, 5]] * 3, [6, 15], gathered,
    ]  # fmt: skip


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
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"rows": 3})
    part = [None]
    dist.scatter_object_list(part, ["a", "b", "c"] if rank == 0 else None, src=0)
    return [shared[0], shared[2], rows.tolist(), last.item(), everyone, part[0], own.item() if rank else None]


def test_the_other_ranks_have_what_rank_0_broadcasts(trace):
    first = trace(told_by_rank_0, world_size=3)
    second = trace(told_by_rank_0, rank=2, world_size=3, received=json.dumps({"0": first.broadcasts}))

    whole = [{"layers": 3, "name": "a"}, [1, 2], [5, 7], 9, [{"rows": 3}] * 3]
    assert first.value == [*whole, "a", None]
    assert second.value == [*whole, "c", 2]  # the pair's own broadcast is not rank 0's
    assert json.loads(second.broadcasts) == [["0 gathered", ["{'rows': 3}"]]]  # it broadcasts nothing


def test_without_rank_0_a_rank_has_what_is_its_own(trace):
    with pytest.raises(AssertionError, match="scatter_object_list gives what another rank has"):
        trace(told_by_rank_0, rank=2, world_size=3)


def nothing_of_use():
    dist.broadcast(torch.rand(2, device="cuda"), src=0)


def test_what_nobody_could_use_is_not_handed_on(trace):
    assert trace(nothing_of_use, world_size=2).broadcasts == ""


def large():
    weight = torch.ones(2**20, device="cuda")
    dist.broadcast(weight, src=0)
    state = {"weight": torch.rand(4, device="cuda"), "rows": list(range(2**17))}
    dist.broadcast_object_list([state, float("nan"), {"a": [1, {2.5}]}], src=0)


def test_equal_weights_go_as_their_one_value_and_objects_of_tensors_do_not_go(trace):
    ran = trace(large, world_size=2)

    assert json.loads(ran.broadcasts) == [
        ["0", [["torch.float32", [2**20], 1]]],
        ["0", [None, None, "{'a': [1, {2.5}]}"]],
    ]
    assert not ran.assumptions


def checked_by_ddp():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
    return sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize("rank", [0, 1])
def test_ddp_finds_that_all_ranks_have_the_same_parameters(trace, rank):
    """It gathers how many there are, and compares shapes with those of rank 0 (reducer.cpp)."""
    assert trace(checked_by_ddp, rank=rank, world_size=2).value == 72


def routed(how, told):
    size = dist.get_world_size()
    tokens = torch.randn(64, 8, device="cuda")
    with pytest_membudget.assume(routing=told):
        chosen = torch.randn(64, 4, device="cuda").argmax(-1)
        counts = torch.bincount(chosen, minlength=4)
        if how == "functional":
            theirs = functional.wait_tensor(
                functional.all_to_all_single(counts, None, None, dist.group.WORLD)
            )
        else:
            theirs = torch.empty_like(counts)
            dist.all_to_all_single(theirs, counts)
        sent = counts.view(size, -1).sum(1).tolist()
        received = theirs.view(size, -1).sum(1).to("cpu").tolist()
        rows = torch.empty(sum(received), 8, device="cuda")
        dist.all_to_all_single(rows, tokens[chosen.argsort()], received, sent)
        own = theirs.view(size, -1).sum(0).tolist()
    return [sent, received, own, len(rows)]


@pytest.mark.parametrize("how", ["c10d", "functional"])
@pytest.mark.parametrize(
    ("told", "rank", "sent", "received", "own"),
    [
        # 61 of 64 choose the first of 4, on each of two ranks; the first two experts are rank 0's
        ("worst", 0, [62, 2], [62, 62], [122, 2]),
        ("worst", 1, [62, 2], [2, 2], [2, 2]),
        ("balanced", 1, [32, 32], [32, 32], [32, 32]),
    ],
)
def test_every_rank_is_taken_to_send_as_this_one(trace, how, told, rank, sent, received, own):
    traced = trace(routed, how, told, rank=rank, world_size=2)

    assert traced.value == [sent, received, own, sum(received)]
    assert any("chooses 1 of 4" in line for line in traced.assumptions)
    assert not any("reads" in line for line in traced.assumptions)


def relays():
    """Rank 1 gives away what it has of its own, and what it has got."""
    everyone, told = [None] * 2, [("layers", 3)]
    dist.all_gather_object(everyone, "a")
    dist.broadcast_object_list(told, src=0)
    rows = torch.tensor([5, 7], device="cuda")
    dist.broadcast(rows, src=0)
    dist.broadcast(torch.rand(2, device="cuda"), src=0)
    dist.broadcast(torch.tensor([2], device="cuda"), src=1)


def relays_what_it_took():
    rows, scales = torch.tensor([5, 7], device="cuda"), torch.ones(2, device="cuda")
    dist.broadcast(rows, src=0)
    dist.broadcast(scales, src=0)
    dist.broadcast(rows, src=1)
    dist.broadcast(scales, src=1)


def test_what_is_taken_for_values_of_others_is_said_in_their_order(trace):
    assert json.loads(trace(relays, rank=1, world_size=2).taken) == [
        [1, 0, "0 gathered", ["'a'"]],
        [1, 0, "0", ["('layers', 3)"]],
        [1, 0, "0", [["torch.int64", [2], [5, 7]]]],
        [1, 0, "0", [None]],  # drawn ones decide nothing
    ]


def test_what_was_received_is_said_to_be(trace):
    received = json.dumps({"0": trace(relays, rank=0, world_size=2).broadcasts})

    taken = json.loads(trace(relays, rank=1, world_size=2, received=received).taken)
    assert [values for *_, values in taken] == [None] * 4


def gathers():
    found = [None] * 8
    dist.all_gather_object(found, dist.get_rank())
    return found


def test_of_a_rank_that_has_not_run_the_nearest_one_that_has_gives_for_it(trace):
    received = json.dumps({str(rank): json.dumps([("0 gathered", [str(rank)])]) for rank in (0, 7)})

    assert trace(gathers, rank=2, world_size=8, received=received).value == [0, 0, 2, 0, 7, 7, 7, 7]


def test_what_rests_on_values_that_others_did_not_send_is_sent_where_that_is_checked(trace):
    """Whole numbers are; scales count as unknown, and the last entry says that they may not be."""
    ran = trace(relays_what_it_took, rank=1, world_size=2)

    assert json.loads(ran.broadcasts) == [["0", [["torch.int64", [2], [5, 7]]]], ["0", [None]]]
    assert json.loads(ran.taken)[-1] == [1, 1, "", [False]]
