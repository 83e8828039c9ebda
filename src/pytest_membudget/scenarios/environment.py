"""Applies a scenario's environment variables to its job."""

from __future__ import annotations

from dataclasses import replace

from ..allocator.settings import VARIABLES, AllocatorSettings
from ..errors import MembudgetError, UsageMistake
from ..formulas.job import Job
from ..kernels.cublas import cublas_workspace_bytes
from .grid import Written

_FIELD, _CUBLAS = "environment", "CUBLAS_WORKSPACE_CONFIG"


def with_environment(job: Job, written: Written) -> Job:
    """``job`` with the scenario's environment variables; unknown variables are mistakes."""
    if _FIELD not in written.values:
        return job
    for name, value in written.values[_FIELD].plain.items():
        try:
            job = _with_variable(job, name, str(value))
        except MembudgetError as error:
            written.refuse(_FIELD, str(error))
    return job


def _with_variable(job: Job, name: str, value: str) -> Job:
    if name == _CUBLAS:
        size_bytes = cublas_workspace_bytes((9, 0), (2, 13), value)
        if job.megatron is not None:
            job = replace(job, megatron=replace(job.megatron, cublas_workspace_bytes=size_bytes))
        return replace(job, cublas_workspace_config=value)
    if name not in VARIABLES:
        raise UsageMistake(f"nothing reads {name}; the variables are {_CUBLAS}, {', '.join(VARIABLES)}")
    settings = AllocatorSettings.parse(value, name)
    if settings != AllocatorSettings(expandable_segments=settings.expandable_segments):
        raise UsageMistake(
            f"{name}={value}: formulas know expandable_segments alone; run the step itself in a marked test"
        )
    return replace(job, expandable_segments=settings.expandable_segments)
