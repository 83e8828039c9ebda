"""Jobs whose memory no formula has are refused, by the field that asks for them."""

from dataclasses import replace

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.job import (
    Checkpointing,
    DataParallel,
    Degrees,
    Generation,
    Job,
    Precision,
)
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Stack

LAYER = Layer(Attention(4, 4, 16, rotary_dim=16), FeedForward(128))
JOB = Job(Model("small", "llama", 1000, Stack(((LAYER, 4),), 64)), sequence=128)
STAGES = Degrees(pipeline_parallel_degree=2, data_parallel_shard_degree=4)
COMPILED = replace(JOB, implementation="torchtitan", compiled=frozenset({"layers"}))

REFUSED = {
    "offload": replace(JOB, offload=frozenset({"activations"})),
    "compiled": replace(COMPILED, checkpointing=Checkpointing("per_operator")),
    "precision": replace(JOB, precision=Precision("fsdp", "fp32", "fp8")),
    "pipeline_parallel_degree": replace(JOB, degrees=STAGES, accumulation=4),
}
#: Near each of those: what formulas have.
TAKEN = {
    "offloaded states": replace(JOB, offload=frozenset({"optimizer_states"})),
    "compiled, checkpointed": replace(COMPILED, checkpointing=Checkpointing("full")),
    "weights in fp8": replace(
        JOB,
        task="generate",
        generation=Generation(4),
        precision=Precision("pure", "fp8", "bf16", "bf16", "bf16"),
    ),
    "stages of replicas": replace(JOB, degrees=STAGES, data_parallel=DataParallel("zero1"), accumulation=4),
    "stages alone": replace(JOB, degrees=Degrees(pipeline_parallel_degree=2), accumulation=4),
}


@pytest.mark.parametrize("field", REFUSED)
def test_a_job_without_a_formula_is_refused_by_its_field(field):
    with pytest.raises(UsageMistake, match=f"^{field}: .*run the step itself in a marked test"):
        estimate(REFUSED[field])


@pytest.mark.parametrize(
    "data_parallel",
    [DataParallel(reshards_after_forward=False), DataParallel("zero3")],
    ids=["whole", "zero3"],
)
def test_stages_that_gather_parameters_are_refused(data_parallel):
    with pytest.raises(UsageMistake, match="keeps whole parameters and gradients"):
        estimate(replace(REFUSED["pipeline_parallel_degree"], data_parallel=data_parallel))


@pytest.mark.parametrize("kind", ["parameters", "reduce", "gradients"])
def test_training_in_fp8_is_refused_whatever_is_in_it(kind):
    precision = replace(Precision("pure", "bf16", "bf16"), **{kind: "fp8"})

    with pytest.raises(UsageMistake, match="training in fp8"):
        estimate(replace(JOB, precision=precision))


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_near_has_a_figure(name):
    assert all(figure.allocated_bytes for figure in estimate(TAKEN[name]))
