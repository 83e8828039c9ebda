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


def test_compiled_layers_keep_what_products_take_and_give():
    layer = 2 * (2 + 2) * 8 + 4 * 2 * 8 + 3 * 2 * 32

    assert moments(compiled=True)[LOSS][ACTIVATIONS] == TOKENS * (4 * layer + 2 * 2 * 8)


def test_accumulated_gradients_are_there_at_the_loss():
    assert moments(accumulation=2)[LOSS][GRADIENTS] == 2 * COUNT


def test_a_chunked_loss_has_a_chunks_logits():
    assert moments(loss=Loss("chunked", 4))[LOSS][TEMPORARIES] == TOKENS * 16 * 14 / 4


def test_selective_checkpointing_keeps_every_second_layer():
    whole = moments()[LOSS][ACTIVATIONS] - TOKENS * 32

    found = moments(checkpointing=Checkpointing("selective", 2))[LOSS][ACTIVATIONS] - TOKENS * 32

    assert found == whole / 2 + 4 * TOKENS * 2 * 8 / 2


def test_autocast_keeps_copies_of_the_linears():
    linears = 4 * (4 * 64 + 3 * 256) + 16 * 8
    plain = moments(precision=Precision("fsdp", "fp32", "bf16"))[LOSS][ACTIVATIONS]

    assert moments(precision=Precision("autocast", "fp32", "bf16"))[LOSS][ACTIVATIONS] == plain + 2 * linears


def test_fsdp_gathers_two_layers_and_the_ends():
    found = moments(degrees=Degrees(data_parallel_shard_degree=2))

    assert found[LOSS][COLLECTIVES] == 2 * (2 * LAYER + ENDS)
    assert found[END][COLLECTIVES] == 2 * (2 * LAYER + ENDS) + (2 + 2) * LAYER  # whole gradients, reduced
    assert found[STEP][PARAMETERS] == found[STEP][GRADIENTS] == COUNT


def test_without_resharding_all_layers_stay_whole():
    found = moments(
        degrees=Degrees(data_parallel_shard_degree=2),
        data_parallel=DataParallel("fsdp2", reshards_after_forward=False),
    )

    assert found[LOSS][COLLECTIVES] == 2 * (4 * LAYER + ENDS)


def test_ddp_has_buckets_of_all_gradients_where_there_are_replicas():
    job = {"data_parallel": DataParallel("ddp")}

    assert moments(**job)[STEP][COLLECTIVES] == 0
    found = moments(**job, degrees=Degrees(data_parallel_replicate_degree=2))
    assert found[STEP][COLLECTIVES] == found[STEP][GRADIENTS] == 2 * COUNT


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


def test_offloaded_parameters_leave_the_gathered_layers():
    found = moments(offload=("parameters",), degrees=Degrees(data_parallel_shard_degree=2))

    assert {found[STEP][name] for name in (PARAMETERS, GRADIENTS, OPTIMIZER_STATES)} == {0}
    assert found[LOSS][COLLECTIVES] == 2 * (2 * LAYER + ENDS)


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
