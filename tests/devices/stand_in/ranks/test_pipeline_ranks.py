"""Pipeline stages: each schedule keeps as many microbatches as its definition says."""

import json

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_membudget.devices.stand_in.ranks.objects import packed, unpacked

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


def test_a_later_stage_gets_the_shapes_of_its_inputs_from_the_one_before(trace):
    first = trace(pipeline, "Schedule1F1B", 1, False, rank=0, world_size=2)
    received = json.dumps({"0": first.broadcasts})

    second = trace(pipeline, "Schedule1F1B", 1, False, rank=1, world_size=2, received=received)

    assert (first.value, second.value) == (2, 1)


def second_pipeline():
    from torch.distributed import pipelining
    from torch.distributed.device_mesh import init_device_mesh

    group = init_device_mesh("cuda", (2, 2), mesh_dim_names=("stages", "replicas")).get_group("stages")
    index = dist.get_rank(group)
    stage = pipelining.PipelineStage(Stage().cuda(), index, 2, torch.device("cuda"), group=group)
    runs = pipelining.ScheduleGPipe(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    batch = torch.randn(MICROBATCHES * ROWS, WIDTH, device="cuda")
    runs.step(*([] if index else [batch]), **({"target": batch} if index else {}))
    return max(kept)


def test_it_gets_them_from_a_first_stage_of_another_pipeline_where_its_own_has_not_run(trace):
    received = json.dumps({"0": trace(second_pipeline, rank=0, world_size=4).broadcasts})

    traced = trace(second_pipeline, rank=3, world_size=4, received=received)

    assert traced.value == MICROBATCHES
    [[_, sender, _, values]] = json.loads(traced.taken)
    assert (sender, values) == (1, [None]), "rank 1 need not run"


def alone():
    try:
        pipeline("ScheduleGPipe", 1, False)
    except Exception as error:
        return str(error)


def test_without_them_it_says_so(trace):
    traced = trace(alone, rank=1, world_size=2)

    assert traced.value.startswith("torch.distributed.recv_object_list gives what another rank has")


def test_shapes_are_sent_as_tensors_without_data_by_torch_before_2_13():
    sent = (torch.empty(ROWS, WIDTH, dtype=torch.bfloat16, device="meta"),)

    [shape] = unpacked(packed(sent))

    assert (shape.shape, shape.dtype, shape.is_meta) == ((ROWS, WIDTH), torch.bfloat16, True)
    assert packed((torch.ones(2),)) is None, "data is no shape"
