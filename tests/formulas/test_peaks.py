"""Moments of a step: what each one has, by hand on a small decoder."""

import json

import pytest

from pytest_membudget.components import (
    ACTIVATIONS,
    COLLECTIVES,
    FROZEN_PARAMETERS,
    GRADIENTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    TEMPORARIES,
)
from pytest_membudget.formulas.peaks import figures_of
from pytest_membudget.formulas.reports import reports_of
from pytest_membudget.scenarios.job import (
    Adapter,
    Checkpointing,
    DataParallel,
    Degrees,
    Generation,
    Job,
    Loss,
    Model,
    Optimizer,
    Precision,
)
from pytest_membudget.units import MIB

SMALL = {"hidden": 8, "layers": 4, "heads": 2, "intermediate": 32, "vocab": 16}
LAYER, ENDS = 4 * 64 + 3 * 256 + 2 * 8, 2 * 16 * 8 + 8
COUNT = 4 * LAYER + ENDS
MODEL = Model("shape", "small", json.dumps(SMALL))
LOSS, BACKWARD, END, STEP = range(4)
TOKENS = 3 * 5


def moments(**more):
    [figure] = figures_of(Job(MODEL, "formulas", micro_batch=3, sequence=5, **more))
    return [moment.components for moment in figure.moments]


def test_a_step_of_one_gpu():
    found = moments()

    assert found[STEP][PARAMETERS] == found[STEP][GRADIENTS] == 2 * COUNT
    assert found[STEP][OPTIMIZER_STATES] == 4 * COUNT
    assert found[STEP][TEMPORARIES] == 2 * COUNT
    assert found[LOSS][GRADIENTS] == 0
    # norms: input in fp32 and product, output; q, k, v and output; gate, up, activation and product
    layer = 2 * (4 + 2 + 2) * 8 + 4 * 2 * 8 + 4 * 2 * 32
    assert found[LOSS][ACTIVATIONS] == TOKENS * (4 * layer + 2 * 2 * 8)
    assert found[LOSS][TEMPORARIES] == TOKENS * 16 * (2 + 3 * 4)


SHARDED = {"degrees": Degrees(data_parallel_shard_degree=2)}
DDP = {"data_parallel": DataParallel("ddp")}
#: The head's input, in fp32 and as the product has it, is kept of each token.
HEAD = TOKENS * 2 * 2 * 8
#: Of a token: q, k, v, output; gate, up, activation, product; norms' input in fp32 and output.
KEPT = 4 * (2 * (4 + 2 + 2) * 8 + 4 * 2 * 8 + 4 * 2 * 32)
COMPILED = 4 * (2 * (2 + 2) * 8 + 4 * 2 * 8 + 3 * 2 * 32)
LINEARS = 4 * (4 * 64 + 3 * 256) + 16 * 8
GATHERED = 2 * (2 * LAYER + ENDS)
#: What a job has, and bytes by moment and component.
MOMENTS = {
    "compiled layers keep what products take and give": (
        {"compiled": True}, {(LOSS, ACTIVATIONS): TOKENS * COMPILED + HEAD}
    ),
    "accumulated gradients are there at the loss": ({"accumulation": 2}, {(LOSS, GRADIENTS): 2 * COUNT}),
    "a chunked loss has a chunk's logits": (
        {"loss": Loss("chunked", 4)}, {(LOSS, TEMPORARIES): TOKENS * 16 * 14 / 4}
    ),
    "selective checkpointing keeps every second layer": (
        {"checkpointing": Checkpointing("selective", 2)},
        {(LOSS, ACTIVATIONS): TOKENS * KEPT / 2 + HEAD + 4 * TOKENS * 2 * 8 / 2},
    ),
    "fsdp's precision keeps no copies of linears": (
        {"precision": Precision("fsdp", "fp32", "bf16")}, {(LOSS, ACTIVATIONS): TOKENS * KEPT + HEAD}
    ),
    "autocast does": (
        {"precision": Precision("autocast", "fp32", "bf16")},
        {(LOSS, ACTIVATIONS): TOKENS * KEPT + HEAD + 2 * LINEARS},
    ),
    "fsdp gathers two layers and the ends, and reduces whole gradients": (
        SHARDED,
        {(LOSS, COLLECTIVES): GATHERED, (END, COLLECTIVES): GATHERED + (2 + 2) * LAYER,
         (STEP, PARAMETERS): COUNT, (STEP, GRADIENTS): COUNT},
    ),
    "without resharding all layers stay whole": (
        {**SHARDED, "data_parallel": DataParallel("fsdp2", reshards_after_forward=False)},
        {(LOSS, COLLECTIVES): 2 * (4 * LAYER + ENDS)},
    ),
    "offloaded parameters leave the gathered layers": (
        {**SHARDED, "offload": ("parameters",)},
        {(LOSS, COLLECTIVES): GATHERED, (STEP, PARAMETERS): 0, (STEP, GRADIENTS): 0,
         (STEP, OPTIMIZER_STATES): 0},
    ),
    "ddp without replicas has no buckets": (DDP, {(STEP, COLLECTIVES): 0}),
    "with replicas it has buckets of all gradients": (
        {**DDP, "degrees": Degrees(data_parallel_replicate_degree=2)},
        {(STEP, COLLECTIVES): 2 * COUNT, (STEP, GRADIENTS): 2 * COUNT},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOMENTS)
def test_what_a_moment_has(name):
    job, expected = MOMENTS[name]
    found = moments(**job)

    assert {place: found[place[0]][place[1]] for place in expected} == expected


def test_adapters_are_all_that_is_trained():
    """Rank 2 on queries and values: 2 x (8 + 8) each, in fp32; and no input of other linears is kept."""
    found = moments(adapter=Adapter("lora", 2, ("q_proj", "v_proj")))
    trained = 4 * 2 * 2 * 16

    assert found[STEP][PARAMETERS] == found[STEP][GRADIENTS] == 4 * trained
    assert found[STEP][OPTIMIZER_STATES] == 8 * trained
    assert found[STEP][FROZEN_PARAMETERS] == 2 * COUNT
    # norms' inputs in fp32, attention's input; q, k, v and output; gate, up and activation
    layer = 2 * 4 * 8 + 2 * 8 + 4 * 2 * 8 + 3 * 2 * 32
    assert found[LOSS][ACTIVATIONS] == TOKENS * (4 * layer + 2 * 2 * 8)


@pytest.mark.parametrize(("base", "a_weight"), [("nf4", 0.5625), ("nf4-double", 0.51586914)])
def test_a_quantised_base_has_its_scales_and_one_linear_unpacked(base, a_weight):
    found = moments(adapter=Adapter("qlora", 2, ("all-linear",), base))
    linears = 4 * (4 * 64 + 3 * 256)

    assert found[STEP][FROZEN_PARAMETERS] == pytest.approx(
        a_weight * linears + 2 * (COUNT - linears), rel=1e-6
    )
    assert found[LOSS][COLLECTIVES] == 2 * 256


def test_offloaded_activations_lie_on_the_host():
    job = Job(MODEL, "formulas", micro_batch=3, sequence=5, offload=("activations",))
    [figure] = figures_of(job)
    layer = TOKENS * (2 * 8 * 8 + 4 * 2 * 8 + 4 * 2 * 32)

    assert figure.host[ACTIVATIONS] == 4 * layer
    assert figure.moments[LOSS].components[ACTIVATIONS] == 2 * layer + TOKENS * 32


@pytest.mark.parametrize(("cache", "copied"), [("static", 0), ("dynamic", 1)])
def test_generation_ends_with_the_longest_cache(cache, copied):
    """Keys and values of 8 numbers, 4 layers, 3 sequences of 7 tokens; one layer's copy as it grows."""
    found = moments(generation=Generation(5, 2, cache))
    layer = 3 * 7 * 2 * 8 * 2

    assert found[-1][ACTIVATIONS] == (4 + copied) * layer
    assert found[-1][TEMPORARIES] == 3 * 16 * (2 + 4)


def test_a_report_has_the_components_of_the_peak_and_a_margin():
    [report] = reports_of(Job(MODEL, "formulas", optimizer=Optimizer("sgd")), "allocated", None)

    assert report.kind == "analytic"
    assert report.peak_bytes == sum(report.components.values())
    assert report.components["workspaces"] == 64 * MIB
    assert report.margin == 0.10
    assert "by formulas" in report.assumptions[0]


def test_the_device_has_the_cards_context_too():
    job = Job(MODEL, "formulas")
    allocated, device = (reports_of(job, metric, "H100-80GB")[0] for metric in ("allocated", "device"))

    assert device.peak_bytes == allocated.peak_bytes + device.components["context"]
    assert device.components["context"] > 0
    assert device.margin == 0.12


def test_each_pipeline_stage_has_a_report():
    job = Job(MODEL, "formulas", degrees=Degrees(pipeline_parallel_degree=2, data_parallel_shard_degree=2))

    assert [report.rank for report in reports_of(job, "allocated", None)] == [0, 2]
