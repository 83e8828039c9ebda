"""Two steps of training, as a user's program takes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from ..scenarios.job import Job
from ..steps import optimizer_in_backward
from .optimizers import optimizer_class
from .program import MICRO_BATCHES, STEPS, TYPES, tokens_of


def train(objective: nn.Module, job: Job, mesh: DeviceMesh | None) -> None:
    """Take ``STEPS`` steps of ``objective``, which returns the loss of a micro-batch of tokens."""
    objective.train()
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    make: Any = optimizer_class(job.optimizer)
    optimizer: torch.optim.Optimizer | None = None
    if job.optimizer.in_backward:
        optimizer_in_backward(trained, make)
    elif job.data_parallel.kind == "zero1" and mesh is not None:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(trained, make, process_group=mesh.get_group("replicate"))
    else:
        optimizer = make(trained)
    for _ in range(STEPS):
        for _ in range(min(job.accumulation, MICRO_BATCHES)):
            with _forward(job):
                loss = objective(tokens_of(job))
            loss.backward()
            del loss
        if optimizer is not None:
            if job.optimizer.clips_gradients:
                nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()


@contextlib.contextmanager
def _forward(job: Job) -> Iterator[None]:
    with contextlib.ExitStack() as during:
        if job.precision.policy == "autocast":
            during.enter_context(torch.autocast("cuda", TYPES[job.precision.compute_type]))
        if "activations" in job.offload:
            during.enter_context(torch.autograd.graph.save_on_cpu(pin_memory=True))
        yield
