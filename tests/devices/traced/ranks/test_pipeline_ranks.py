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


@pytest.mark.parametrize("rank", [0, 3])
def test_gpipe_keeps_all_microbatches_on_every_stage(trace, rank):
    traced = trace(pipeline, "ScheduleGPipe", rank=rank, world_size=4)

    assert traced.value == MICROBATCHES


@pytest.mark.parametrize(("rank", "microbatches"), [(0, 4), (1, 3), (3, 1)])
def test_1f1b_keeps_as_many_as_there_are_stages_from_here_on(trace, rank, microbatches):
    traced = trace(pipeline, "Schedule1F1B", rank=rank, world_size=4)

    assert traced.value == microbatches


def test_interleaved_stages_keep_more_on_the_first_rank(trace):
    first, last = (trace(pipeline, "ScheduleInterleaved1F1B", 2, rank=rank, world_size=4) for rank in (0, 3))

    # warm-up of Megatron's interleaved schedule: (stages - 1) * ranks + 2 * (ranks - 1 - rank), then one
    # forward for one backward
    assert first.value == (2 - 1) * 4 + 2 * (4 - 1 - 0) + 1
    assert last.value == (2 - 1) * 4 + 2 * (4 - 1 - 3) + 1


def test_a_rank_of_each_stage_is_to_be_estimated(trace):
    traced = trace(staged_without_rank, world_size=64)

    assert traced.representatives == [16, 32, 48, 63]
    assert "and there is a rank of each pipeline stage" in traced.rank_assumption


def staged_without_rank():
    """Four stages of 16 ranks each; only the mesh knows which this is."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage

    mesh = init_device_mesh("cuda", (4, 16), mesh_dim_names=("pp", "dp"))
    PipelineStage(Stage().cuda(), 0, 4, torch.device("cuda"), group=mesh.get_group("pp"))


def test_the_first_stage_infers_its_shapes(trace):
    traced = trace(pipeline, "ScheduleGPipe", 1, False, world_size=2)

    assert traced.value == MICROBATCHES


def without_shapes():
    try:
        pipeline("ScheduleGPipe", 1, False)
    except Exception as error:
        return str(error)


def test_a_later_stage_must_be_given_its_shapes(trace):
    text = trace(without_shapes, rank=1, world_size=2).value

    assert text.startswith("stage 1 of the pipeline is to get the shapes of its inputs from stage 0")
    assert "PipelineStage(..., input_args=..., output_args=...)" in text
