"""Ranks that decide by what another rank has: that one is run too, and those that do not meet fail."""

import pytest

BODIES = """
    import os
    import time

    import pytest
    import torch
    import torch.distributed as dist
    from holding import hold

    two = pytest.mark.mem_budget(gib=1, gpus=2)

    class Part:
        pass

    @pytest.mark.mem_budget(gib=1, gpus=4)
    def test_says_who_runs():
        with open("ran", "a") as file:
            file.write(str(dist.get_rank()))
        found = [None] * 4
        dist.all_gather_object(found, ("layers", 2))
        kept = hold(0.1 * found[1][1])

    @pytest.mark.mem_budget(gib=1, gpus=8)
    def test_has_stages():
        rank, pairs = dist.get_rank(), [dist.new_group([first, first + 1]) for first in range(0, 8, 2)]
        with open("stages", "a") as file:
            file.write(str(rank))
        groups = ["weights", "biases"] if rank < 4 else ["biases", "weights"]
        for _ in range(2):
            found = [None] * 8
            dist.all_gather_object(found, groups)
        rows = torch.tensor([10 + rank if rank % 2 == 0 else 0], device="cuda")
        dist.broadcast(rows, rank // 2 * 2, group=pairs[rank // 2])
        between = torch.rand(4, device="cuda")
        dist.send(between, rank + 4) if rank < 4 else dist.recv(between, rank - 4)
        kept = hold(rows.item() / 100 + sum(one[0] == "weights" for one in found) / 10)

    @two
    def test_is_the_second_of_those_it_gathers():
        dist.init_process_group("nccl")
        found = [None, None]
        dist.all_gather_object(found, os.getpid())
        kept = hold(0.5 if found.index(os.getpid()) == 1 else 0.1)

    @two
    def test_takes_what_is_different_in_each_run():
        found = [None, None]
        dist.all_gather_object(found, time.time_ns())
        kept = hold(0.1 + found[1 - dist.get_rank()] % 1000 / 2000)

    @two
    def test_takes_more_on_one_rank_where_a_loss_is_high():
        if torch.randn(8, device="cuda").norm().item() > 5 and dist.get_rank() == 1:
            kept = hold(0.5)

    @two
    def test_gathers_on_one_rank():
        found = [None, None] if dist.get_rank() == 0 else None
        dist.gather_object(dist.get_rank() + 1, found)
        kept = hold(0.1 * sum(found) if found else 0.1)

    @two
    def test_gathers_what_all_have():
        found = [None, None]
        dist.all_gather_object(found, {"rows": 3})
        kept = hold(0.1 * found[1]["rows"])

    @two
    def test_gathers_what_cannot_be_handed_on():
        found = [None, None]
        dist.all_gather_object(found, Part())
        kept = hold(0.1)

    def pairs():
        return [dist.new_group([first, first + 1]) for first in range(0, 10, 2)]

    @pytest.mark.mem_budget(gib=1, gpus=10)
    def test_trains_if_the_first_of_its_group_says_so():
        groups, rank = pairs(), dist.get_rank()
        flags = torch.tensor([1 - rank % 2], device="cuda")
        dist.broadcast(flags, rank // 2 * 2, group=groups[rank // 2])
        kept = hold(0.5 if flags.item() else 0.1)

    @pytest.mark.mem_budget(gib=1, gpus=10)
    def test_has_its_settings_from_the_first_rank():
        told = [{"size": 0.5}] if dist.get_rank() == 0 else [{"size": 0.1}]
        dist.broadcast_object_list(told, src=0)
        kept = hold(told[0]["size"])

    @pytest.mark.mem_budget(gib=1, gpus=10)
    def test_needs_no_other_rank_for_weights():
        group, layer = pairs()[dist.get_rank() // 2], torch.nn.Linear(4096, 4096).cuda()
        model = torch.nn.parallel.DistributedDataParallel(layer, process_group=group)

    @two
    def test_gets_an_object_from_the_first():
        if dist.get_rank() == 0:
            dist.send_object_list([{"size": 0.5}], dst=1)
            kept = hold(0.1)
        else:
            told = [None]
            assert dist.recv_object_list(told, src=0) == 0
            kept = hold(told[0]["size"])

    @two
    def test_collects_states_of_its_optimizer():
        from torch.distributed.optim import ZeroRedundancyOptimizer

        parameters = [torch.nn.Parameter(torch.zeros(2**24, device="cuda")) for _ in range(2)]
        optimizer = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lr=0.1, momentum=0.9)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.consolidate_state_dict()
        if dist.get_rank() == 0:
            assert len(optimizer.state_dict()["state"]) == 2

    @two
    def test_leaves_before_the_group_is_made():
        kept = hold(0.1)
        if os.environ["RANK"] == "0":
            dist.init_process_group("nccl")
            dist.barrier()

    @two
    def test_holds_nothing_on_one_rank():
        dist.init_process_group("nccl")
        kept = hold(0.1) if dist.get_rank() == 0 else None
    """
GIB = 2**30
#: Of 10 ranks, whose machines have 8, where the rank was asked for: the ends, one between, and those whose
#: numbers are in the bodies.
OF_TEN = (0, 1, 2, 4, 7, 8, 9)
#: In GiB, by rank.
SIZES = {
    "has_stages": {rank: 0.5 + rank // 2 * 2 / 100 for rank in range(8)},
    "is_the_second_of_those_it_gathers": {0: 0.1, 1: 0.5},
    "gets_an_object_from_the_first": {0: 0.1, 1: 0.5},
    # two parameters with gradients, one momentum, and its bytes; rank 0 has the other's beside them
    "collects_states_of_its_optimizer": {0: 7 / 16, 1: 6 / 16},
    "gathers_on_one_rank": {0: 0.3, 1: 0.1},
    "gathers_what_all_have": {0: 0.3, 1: 0.3},
    "gathers_what_cannot_be_handed_on": {0: 0.1, 1: 0.1},
    "trains_if_the_first_of_its_group_says_so": dict.fromkeys(OF_TEN, 0.5),
    "has_its_settings_from_the_first_rank": dict.fromkeys(OF_TEN, 0.5),
}


#: Which rank holds more, each in a file of its own; 3 and 5 are none of those that run anyway.
NAMED = """
    import os
    import pytest
    import roles
    import torch
    import torch.distributed as dist

    LARGE = 3

    @pytest.mark.mem_budget(gib=2, gpus=10)
    def test_holds_more_on_a_rank_{name}():
        kept, six = torch.ones(2**20, device="cuda"), [6][0]
        {lines}
        if {condition}:
            kept = torch.ones(2**28, device="cuda")
    """
CONDITIONS = {
    "with_a_name": ("", "dist.get_rank() == LARGE"),
    "with_a_name_of_a_class": ("", "dist.get_rank() in roles.Settings.large_ranks"),
    "that_is_kept": ("mine, size = dist.get_rank(), dist.get_world_size()", "mine == 3"),
    "of_the_environment": ("", "os.environ['RANK'] == roles.TEXT"),
    "that_another_file_compares": ("", "roles.is_large(dist.get_rank())"),
    "that_another_file_asks_for": ("", "roles.own_rank() == 5"),
    "by_its_remainder": ("", "dist.get_rank() % 10 - 1 == 2"),
    "from_the_end": ("", "dist.get_rank() == dist.get_world_size() - 7"),
}
UNKNOWN = {
    "that_is_computed_elsewhere": ("", "roles.own_rank() == six"),
    "that_is_computed": ("", "dist.get_rank() == six"),
    "that_is_another": ("rank, large_rank = dist.get_rank(), six", "rank == large_rank"),
}
ROLES = """
    import os

    TEXT = "3"

    def own_rank():
        return int(os.environ["RANK"])

    class Settings:
        large_ranks = (0, 3)[1:]

    def is_large(rank):
        return rank == 3
    """
#: What is appended to files that are there stays after each run.
FILES = {"test_budgets.py": BODIES, "roles.py": ROLES, "ran": "", "stages": ""} | {
    f"test_rank_{name}.py": NAMED.format(name=name, lines=lines, condition=condition)
    for name, (lines, condition) in (CONDITIONS | UNKNOWN).items()
}


@pytest.mark.parametrize("name", SIZES)
def test_what_another_rank_has_is_its_own(run, name):
    estimates = run.rows[f"test_{name}"]["estimates"]

    found = {one["rank"]: one["peak"]["allocated"] / GIB for one in estimates}
    assert found == pytest.approx(SIZES[name], rel=0.01)
    kinds = {caveat["cause"] for one in estimates for caveat in one["caveats"]}
    of_objects, of_ranks = "handed_on" in name, 9 in SIZES[name]
    assert kinds == {*["other-objects"] * of_objects, *["method"] * of_ranks}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_rank_that_the_code_picks_is_run(run, name):
    estimates = run.rows[f"test_holds_more_on_a_rank_{name}"]["estimates"]

    most = {one["rank"] for one in estimates if one["peak"]["allocated"] >= GIB}
    assert most == {5 if "asks_for" in name else 3}
    assert {caveat["cause"] for one in estimates for caveat in one["caveats"]} == {"method"}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_rank_that_nobody_knows_may_take_more(run, name):
    estimates = run.rows[f"test_holds_more_on_a_rank_{name}"]["estimates"]

    assert 6 not in [one["rank"] for one in estimates]
    assert {caveat["cause"] for one in estimates for caveat in one["caveats"]} == {"other-ranks"}


def test_a_figure_that_depends_on_what_is_different_in_each_run_is_named(run):
    estimates = run.rows["test_takes_what_is_different_in_each_run"]["estimates"]

    [caveat] = [caveat for one in estimates for caveat in one["caveats"]]
    assert caveat["cause"] == "depends"
    assert caveat["text"].startswith("what other ranks send is different in each run; with that of another")


def test_each_rank_gets_the_other_answers_itself(run):
    """Ranks 0 and 1 do the same until the loss is high."""
    estimates = run.rows["test_takes_more_on_one_rank_where_a_loss_is_high"]["estimates"]

    assert max(one["peak"]["allocated"] for one in estimates) >= 2**29


def test_ranks_that_have_what_the_others_do_run_once_for_them(run):
    ran = (run.folder / "ran").read_text()

    assert [ran.count(rank) for rank in "012"] == [1, 1, 1]  # the last one may have begun ahead


def test_who_took_wrong_values_runs_once_more_and_no_other(run):
    """Ranks 0 and 7 took their stage's for those of the other; 3 and 5 lack rows if their pairs run then."""
    ran = (run.folder / "stages").read_text()

    times = [ran.count(str(rank)) for rank in range(8)]
    assert [times[rank] for rank in (0, 1, 2, 4, 6)] == [2, 1, 1, 1, 1]
    assert {times[3], times[5]} <= {1, 2}
    assert 2 <= times[7] <= 3  # it may have begun ahead, before any other


def test_weights_that_are_broadcast_decide_nothing(run):
    """4096 x 4096 parameters of 4 bytes, and DDP's bucket of as many."""
    estimates = run.rows["test_needs_no_other_rank_for_weights"]["estimates"]
    assert tuple(one["rank"] for one in estimates) == OF_TEN
    assert {caveat["cause"] for one in estimates for caveat in one["caveats"]} == {"method"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("leaves_before_the_group_is_made", "rank 1 ended without taking part in any process group"),
        ("holds_nothing_on_one_rank", "rank 1 allocated nothing on cuda, and others did"),
    ],
)
def test_a_rank_that_does_nothing_fails(run, name, said):
    assert run.outcomes[f"test_{name}"] == "failed"
    assert run.rows[f"test_{name}"]["verdict"] == "error"
    assert said in run.text(f"test_{name}")
