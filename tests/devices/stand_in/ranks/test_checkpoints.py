"""Distributed checkpoints of sharded and of replicated models, saved and loaded by one of several ranks."""

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
