"""Pipeline stages on the stand-in: each schedule keeps as many microbatches as its definition says."""

import pytest
import torch
import torch.distributed as dist
from test_cluster_pipelines import staged_without_rank
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

MICROBATCHES, ROWS, WIDTH = 8, 1024, 256

#: the storages of hidden layers, and how many were alive at each forward
made, kept = [], []


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        if not hidden.is_meta:
            made.append(StorageWeakRef(hidden.untyped_storage()))
            kept.append(sum(not one.expired() for one in made))
        return self.down(hidden)


def pipeline(schedule, stages_a_rank=1, with_shapes=True):
    from torch.distributed import pipelining

    rank, size = dist.get_rank(), dist.get_world_size()
    stages = []
    for index in range(rank, size * stages_a_rank, size):
        shapes = {
            "input_args": torch.empty(ROWS, WIDTH, device="meta", requires_grad=index > 0),
            "output_args": torch.empty(ROWS, WIDTH, device="meta", requires_grad=True),
        }
        stages.append(
            pipelining.PipelineStage(
                Stage().cuda(), index, size * stages_a_rank, torch.device("cuda", rank),
                **(shapes if with_shapes else {}),
            )
        )  # fmt: skip
    kind = getattr(pipelining, schedule)
    runs = kind(stages if stages_a_rank > 1 else stages[0], MICROBATCHES, loss_fn=nn.functional.mse_loss)
    batch = torch.randn(MICROBATCHES * ROWS, WIDTH, device="cuda")
    for _ in range(2):
        runs.step(
            *([batch] if rank == 0 else []), **({"target": batch, "losses": []} if rank == size - 1 else {})
        )
    return max(kept)


@pytest.mark.parametrize("rank", [0, 3])
def test_gpipe_keeps_all_microbatches_on_every_stage(on_rank, rank):
    assert on_rank(pipeline, "ScheduleGPipe", rank=rank, world_size=4).value == MICROBATCHES


@pytest.mark.parametrize(("rank", "microbatches"), [(0, 4), (1, 3), (3, 1)])
def test_1f1b_keeps_as_many_as_there_are_stages_from_here_on(on_rank, rank, microbatches):
    ran = on_rank(pipeline, "Schedule1F1B", rank=rank, world_size=4)

    assert ran.value == microbatches
    peers = {one for _, found in ran.groups.values() for one in found}
    assert peers == {one for one in (rank - 1, rank + 1) if 0 <= one < 4}


@pytest.mark.parametrize("rank", [0, 3])
def test_interleaved_stages_keep_more_on_the_first_rank(on_rank, rank):
    # warm-up of Megatron's interleaved schedule: (stages - 1) * ranks + 2 * (ranks - 1 - rank), then one
    # forward for one backward
    expected = (2 - 1) * 4 + 2 * (4 - 1 - rank) + 1

    assert on_rank(pipeline, "ScheduleInterleaved1F1B", 2, rank=rank, world_size=4).value == expected


def test_the_first_stage_infers_its_shapes(on_rank):
    assert on_rank(pipeline, "ScheduleGPipe", 1, False).value == MICROBATCHES


def without_shapes():
    try:
        pipeline("ScheduleGPipe", 1, False)
    except Exception as error:
        return str(error)


def test_a_later_stage_must_be_given_its_shapes(on_rank):
    text = on_rank(without_shapes, rank=1).value

    assert text.startswith("stage 1 of the pipeline is to get the shapes of its inputs from stage 0")


def test_a_rank_of_each_stage_is_to_be_estimated(on_rank):
    ran = on_rank(staged_without_rank, world_size=64)

    assert ran.representatives == [16, 32, 48, 63]
