"""What scenarios by formulas may not say, at the field that has to change."""

import json
from dataclasses import replace

import pytest

from pytest_membudget.recipes.known import mistakes_in
from pytest_membudget.scenarios.job import Degrees, Job, Model

SMALL = {"hidden": 8, "layers": 2, "heads": 2, "intermediate": 32, "vocab": 16}
EXPERTS = {**SMALL, "experts": 4, "experts_per_token": 2, "expert_intermediate": 4}


def model(**shape):
    return Model("shape", "m", json.dumps(shape))


JOB = Job(model(**SMALL), "formulas")


@pytest.mark.parametrize(
    ("change", "field", "what"),
    [
        ({"model": model(hidden=8)}, "model", "layers and heads and vocab is missing"),
        (
            {"degrees": Degrees(tensor_parallel_degree=3)},
            "tensor_parallel_degree",
            "3 does not divide the 2 heads",
        ),
        (
            {"degrees": Degrees(pipeline_parallel_degree=2, virtual_stages=2)},
            "pipeline_parallel_degree",
            "4 stages, and the model has 2 layers",
        ),
        (
            {"degrees": Degrees(expert_parallel_degree=2)},
            "expert_parallel_degree",
            "2, and the model has no experts",
        ),
        (
            {"model": model(**EXPERTS), "degrees": Degrees(3, expert_parallel_degree=3)},
            "expert_parallel_degree",
            "3 does not divide the 4 experts",
        ),
        (
            {"model": model(**EXPERTS), "degrees": Degrees(3, expert_parallel_degree=2)},
            "expert_parallel_degree",
            "2 does not divide the 3 ranks of a stage",
        ),
        ({"teacher": model(**{**SMALL, "vocab": 15})}, "teacher", "its vocabulary is 15, the model's 16"),
        ({"teacher": model(hidden=8)}, "teacher", "is missing"),
    ],
)
def test_it_is_said_at_its_field(change, field, what):
    found = dict(mistakes_in(replace(JOB, **change)))

    assert what in found[field]


def test_a_job_that_can_be_has_no_mistakes():
    degrees = Degrees(data_parallel_shard_degree=2, expert_parallel_degree=2, pipeline_parallel_degree=2)

    assert [*mistakes_in(replace(JOB, model=model(**EXPERTS), degrees=degrees))] == []
