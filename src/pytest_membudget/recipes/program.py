"""What every recipe begins with: its job, this rank's place in the layout, and its model's parts."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..scenarios.job import Degrees, Job

#: Number types by the name that scenario files use.
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: Steps of training: the second has the optimizer's states from its start.
STEPS = 2
#: Micro-batches that are run of a longer accumulation: from the second on each finds gradients.
MICRO_BATCHES = 2
#: Tokens that are generated with a cache that is whole from the start.
STATIC_TOKENS = 4


def job_of_program() -> Job:
    """The job of the command line."""
    [written] = sys.argv[1:]
    return Job.from_json(json.loads(written))


def begin(degrees: Degrees) -> DeviceMesh | None:
    """Select this rank's GPU; the mesh of its job, or None on one GPU.

    Its dimensions are ``pipeline``, ``replicate``, ``shard``, ``context`` and ``tensor``, the last one within
    a machine: torchtitan's order (``ParallelDims``, torchtitan/distributed/parallel_dims.py, v0.2.2).
    """
    if degrees.gpus == 1:
        return None
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dimensions = {
        "pipeline": degrees.pipeline_parallel_degree,
        "replicate": degrees.data_parallel_replicate_degree,
        "shard": degrees.data_parallel_shard_degree,
        "context": degrees.context_parallel_degree,
        "tensor": degrees.tensor_parallel_degree,
    }
    return init_device_mesh("cuda", tuple(dimensions.values()), mesh_dim_names=tuple(dimensions))


def tokens_of(job: Job) -> torch.Tensor:
    """A rank's micro-batch: numbers of tokens."""
    sequence = job.sequence // job.degrees.context_parallel_degree
    return torch.zeros(job.micro_batch, sequence, dtype=torch.int64, device="cuda")


@dataclass(frozen=True, slots=True)
class Decoder:
    """A causal language model, and the parts of it that a layout treats one by one."""

    model: nn.Module
    layers: nn.ModuleList
    hidden: Callable[[Tensor], Tensor]
    """The states that the head is given, of tokens."""
    logits: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor], Tensor]
    """The loss of tokens, as the library computes it."""
    head: nn.Linear
    recompute_layers: Callable[[], None]
    """Makes backward compute each layer again, by the library's own switch."""
    tensor_plan: Callable[[bool], dict[str, Any]]
    """torch's parallel styles by module; the argument: sequence parallel too."""


#: Makes a decoder whose parameters are of a type, where ``torch.device`` says.
Build = Callable[[], Decoder]
