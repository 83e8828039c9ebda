"""Pipeline stages: each schedule keeps as many microbatches as its definition says."""

import pytest
import torch
import torch.distributed as dist
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
        given = shapes if with_shapes else {}
        stages.append(
            pipelining.PipelineStage(
                Stage().cuda(), index, size * stages_a_rank, torch.device("cuda"), **given
            )
        )
    kind = getattr(pipelining, schedule)
    runs = kind(stages if stages_a_rank > 1 else stages[0], MICROBATCHES, loss_fn=nn.functional.mse_loss)
    batch = torch.randn(MICROBATCHES * ROWS, WIDTH, device="cuda")
    for _ in range(2):
        runs.step(
            *([batch] if rank == 0 else []), **({"target": batch, "losses": []} if rank == size - 1 else {})
        )
    return max(kept)


@pytest.mark.parametrize(
    ("schedule", "stages", "rank", "world_size", "microbatches"),
    [
        # all of them on every stage; the first stage may infer its shapes
        ("ScheduleGPipe", 1, 3, 4, MICROBATCHES),
        ("ScheduleGPipe", 1, 0, 2, MICROBATCHES),
        # as many as there are stages from here on
        ("Schedule1F1B", 1, 0, 4, 4),
        ("Schedule1F1B", 1, 1, 4, 3),
        ("Schedule1F1B", 1, 3, 4, 1),
        # warm-up of Megatron's interleaved schedule: (stages - 1) * ranks + 2 * (ranks - 1 - rank), then one
        # forward for one backward
        ("ScheduleInterleaved1F1B", 2, 0, 4, (2 - 1) * 4 + 2 * (4 - 1 - 0) + 1),
        ("ScheduleInterleaved1F1B", 2, 3, 4, (2 - 1) * 4 + 2 * (4 - 1 - 3) + 1),
    ],
)
def test_a_schedule_keeps_its_microbatches(trace, schedule, stages, rank, world_size, microbatches):
    traced = trace(pipeline, schedule, stages, world_size == 4, rank=rank, world_size=world_size)

    assert traced.value == microbatches


def without_shapes():
    try:
        pipeline("ScheduleGPipe", 1, False)
    except Exception as error:
        return str(error)


def test_a_later_stage_must_be_given_its_shapes(trace):
    text = trace(without_shapes, rank=1, world_size=2).value

    assert text.startswith("stage 1 of the pipeline is to get the shapes of its inputs from stage 0")
    assert "PipelineStage(..., input_args=..., output_args=...)" in text
