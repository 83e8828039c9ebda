"""Environment variables of a scenario's job: read, or refused where nothing reads them."""

import pytest

from pytest_membudget.components import WORKSPACES
from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.terms import by_component

FIELDS = """
    gib: 1
    gpu: H100-80GB
    model: {shape: {hidden: 64, layers: 4, heads: 4, intermediate: 128, vocab: 1000}}
"""


def test_the_cublas_workspace_is_that_of_its_variable(folder):
    """Two threads' workspaces of 2 x 16 KiB; 32 MiB each on an H100 without it."""
    plain = folder.scenario(FIELDS).job
    small = folder.scenario(FIELDS + "    environment: {CUBLAS_WORKSPACE_CONFIG: ':16:2'}").job

    sizes = [by_component(estimate(job)[0].peak.terms)[WORKSPACES] for job in (plain, small)]
    assert sizes == [2 * 2**25, 2 * 2 * 16 * 2**10]


def test_the_allocators_segments_are_those_of_its_variable(folder):
    line = "    environment: {PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True'}"

    assert folder.scenario(FIELDS + line).job.expandable_segments


def test_the_sessions_own_variables_are_not_read(folder, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:2")

    assert folder.scenario(FIELDS).job.cublas_workspace_config is None


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("CUBLAS_WORKSPACE_CONFIG: '4096'", "environment: CUBLAS_WORKSPACE_CONFIG='4096' cannot be read"),
        ("CUBLAS_WORKSPACE_CONFG: ':16:2'", "nothing reads CUBLAS_WORKSPACE_CONFG; the variables are CUBLAS"),
        ("PYTORCH_ALLOC_CONF: 'max_split_size_mb:128'", "formulas know expandable_segments alone"),
        ("PYTORCH_ALLOC_CONF: 'backend:cudaMallocAsync'", "environment: "),
    ],
)
def test_what_nothing_reads_is_refused(folder, variable, text):
    assert text in folder.scenario(FIELDS + f"    environment: {{{variable}}}")
