"""Distributed checkpoints of sharded and of replicated models, saved and loaded by one of several ranks."""

import json

import pytest
import torch
import torch.distributed as dist

ROWS, COLUMNS, RANKS = 1024, 512, 4


def saved(path, sharded, asynchronous):
    from torch.distributed import checkpoint
    from torch.distributed.fsdp import fully_shard

    layer = torch.nn.Linear(COLUMNS, ROWS, bias=False).cuda()
    if sharded:
        fully_shard(layer)
    state = {"model": layer.state_dict(), "steps": torch.tensor([3, 4])}
    if asynchronous:
        group = dist.new_group(backend="gloo")
        checkpoint.async_save(state, checkpoint_id=path, process_group=group).result()
    else:
        checkpoint.save(state, checkpoint_id=path)
    state["steps"].zero_()
    checkpoint.load(state, checkpoint_id=path)
    weight = state["model"]["weight"]
    return list((weight.to_local() if sharded else weight).shape), state["steps"].tolist()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("sharded", "rows"), [(False, ROWS), (True, ROWS // RANKS)])
@pytest.mark.parametrize("rank", [0, RANKS - 1])
def test_each_rank_saves_what_it_has_and_loads_it(trace, tmp_path, rank, sharded, rows, asynchronous):
    traced = trace(saved, str(tmp_path), sharded, asynchronous, rank=rank, world_size=RANKS)

    assert traced.value == [[rows, COLUMNS], [3, 4]]
    assert traced.taken == "", "no other rank need run"


def unreadable(path):
    from torch.distributed import checkpoint

    try:
        checkpoint.load({"steps": torch.zeros(2)}, checkpoint_id=path)
    except checkpoint.CheckpointException as error:
        return list(error.failures)


def test_an_error_is_that_ranks(trace, tmp_path):
    assert trace(unreadable, str(tmp_path), rank=1, world_size=RANKS).value == [1]


def loaded_from_the_first(optimizes):
    from torch.distributed.checkpoint import state_dict
    from torch.distributed.fsdp import fully_shard

    options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    is_first = dist.get_rank() == 0
    whole = {"weight": torch.ones(ROWS, COLUMNS), "bias": torch.ones(ROWS)} if is_first else {}
    moments = {name: dict.fromkeys(("exp_avg", "exp_avg_sq"), one.clone()) for name, one in whole.items()}
    steps = {name: {"step": torch.tensor(9.0), **values} for name, values in moments.items()}
    with torch.device("meta"):
        layer = torch.nn.Linear(COLUMNS, ROWS)
    fully_shard(layer)
    layer.to_empty(device="cuda")
    state_dict.set_model_state_dict(layer, whole, options=options)
    if not optimizes:
        return sorted(layer.state_dict())
    groups = [{"params": ["weight", "bias"], "lr": 0.25}]
    saved = {"state": steps, "param_groups": groups} if is_first else {"state": {}, "param_groups": []}
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.5)
    state_dict.set_optimizer_state_dict(layer, optimizer, saved, options=options)
    return optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize(("optimizes", "expected"), [(False, ["bias", "weight"]), (True, 0.25)])
def test_what_the_first_rank_has_loaded_reaches_the_others(trace, optimizes, expected):
    first = trace(loaded_from_the_first, optimizes, rank=0, world_size=RANKS)
    received = json.dumps({"0": first.broadcasts})

    traced = trace(loaded_from_the_first, optimizes, rank=2, world_size=RANKS, received=received)

    assert (first.value, traced.value) == (expected, expected)


def states_of_all_ranks(sharded):
    """Units of a matrix and its bias, which the last rank has, and of 17 numbers, of which it has none."""
    from torch.distributed import fsdp

    layers = torch.nn.Sequential(
        torch.nn.Linear(ROWS, COLUMNS), torch.nn.Linear(COLUMNS, 1), torch.nn.Linear(1, 17, bias=False)
    )
    policy = fsdp.wrap.ModuleWrapPolicy({torch.nn.Linear})
    layers = fsdp.FullyShardedDataParallel(layers.cuda(), auto_wrap_policy=policy, use_orig_params=True)
    optimizer = torch.optim.AdamW(layers.parameters())
    layers(torch.ones(1, ROWS, device="cuda")).sum().backward()
    optimizer.step()
    kind = fsdp.StateDictType.SHARDED_STATE_DICT if sharded else fsdp.StateDictType.FULL_STATE_DICT
    layers.set_state_dict_type(layers, kind)
    states = fsdp.FullyShardedDataParallel.optim_state_dict(layers, optimizer)["state"]
    return {
        name: [state["step"].item(), *(list(state[moment].size()) for moment in ("exp_avg", "exp_avg_sq"))]
        for name, state in states.items()
    }


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(("rank", "ranks"), [(0, 2), (0, 16), (15, 16)])
def test_states_of_parameters_that_other_ranks_have(trace, rank, ranks, sharded):
    traced = trace(states_of_all_ranks, sharded, rank=rank, world_size=ranks)

    shapes = {"0.weight": [COLUMNS, ROWS], "0.bias": [COLUMNS], "1.weight": [1, COLUMNS], "1.bias": [1]}
    shapes["2.weight"] = [17, 1]
    assert traced.value == {name: [1.0, shape, shape] for name, shape in shapes.items()}
    assert traced.taken == "", "no other rank need run"
