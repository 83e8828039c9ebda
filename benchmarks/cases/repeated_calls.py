"""Figures as Liger-Kernel's benchmarks take them: the peak of a call that is made ten times.

linkedin/Liger-Kernel, ``_test_memory`` of benchmark/scripts/utils.py, v0.3.0: peaks are reset before each
call, gradients stay, the median is published (in fp32, in MiB). The benchmarks of speed run first, in the
same process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from .steps import Record


def budget(gpu: str) -> pytest.MarkDecorator:
    """What the card holds."""
    return pytest.mark.mem_budget(gpu=gpu, metric="allocated")


def cases(name: str, ids: str, values: Sequence[Any]) -> pytest.MarkDecorator:
    """One case for each value of ``name``; ``ids`` takes the value in its braces."""
    return pytest.mark.parametrize(name, [pytest.param(value, id=ids.format(value)) for value in values])


def leaf(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers on the device that take a gradient."""
    return torch.randn(*size, device="cuda", dtype=dtype, requires_grad=True)


def leave_workspaces() -> None:
    """What the benchmarks of speed leave: cuBLAS has worked in this thread and in backward's."""
    nn.Linear(16, 16, bias=False, device="cuda")(leaf(16, 16)).sum().backward()


def trained(call: Callable[[], torch.Tensor], gradient: torch.Tensor | None = None, **kwargs: bool) -> None:
    """Forward and backward; what forward returned is named until backward is done."""
    output = call()
    output.backward(gradient, **kwargs)


def record_repeated(record: Record, call: Callable[[], object]) -> None:
    """The peak of a call that has been made before."""
    record("repeated_allocated_bytes", repeated_peak_bytes(call))


def repeated_peak_bytes(call: Callable[[], object]) -> int:
    """Only the first of the ten is another one: three do."""
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        call()
    return torch.cuda.max_memory_allocated()
