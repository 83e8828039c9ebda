"""What a rank holds of each tensor, against hand arithmetic."""

import pytest

from pytest_membudget.formulas.job import DataParallel, Degrees, Job, Precision
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Stack
from pytest_membudget.formulas.parameter_tensors import Inventory, LayerTensors, ParameterTensor
from pytest_membudget.formulas.pipeline import stages_of
from pytest_membudget.formulas.sharding import local_tensors, shard_ranks

LAYER = Layer(Attention(8, 8, 8), FeedForward(256))
TENSORS = (
    ParameterTensor("up.weight", (256, 64), "feed_forward", split_dim=0),
    ParameterTensor("down.weight", (64, 256), "feed_forward", split_dim=1),
    ParameterTensor("norm.weight", (64,), "norm"),
    ParameterTensor("experts.weight", (128, 64), "expert", count=8, split_dim=0),
    ParameterTensor("stacked", (8, 128, 64), "expert", split_dim=1),
    ParameterTensor("router.weight", (8, 64), "router", number_type="fp32"),
)
INVENTORY = Inventory(
    (ParameterTensor("embedding.weight", (1000, 64), "embedding", split_dim=0),),
    (LayerTensors(TENSORS, 4),),
    (ParameterTensor("final.weight", (64,), "norm"),),
)


def job(kind="fsdp2", *, tied=False, prediction_layers=0, **degrees):
    model = Model(
        "m", "megatron", 1000, Stack(((LAYER, 4),), 64), tied=tied, prediction_layers=prediction_layers
    )
    return Job(
        model,
        implementation="megatron",
        precision=Precision(parameters="bf16"),
        degrees=Degrees(**degrees),
        data_parallel=DataParallel(kind=kind),
    )


def held(found, stage=-1):
    return {tensor.name: tensor for tensor in local_tensors(stages_of(found)[stage], INVENTORY)}


def test_one_rank_holds_all():
    tensors = held(job("ddp"))

    assert tensors["up.weight"].shape == tensors["up.weight"].whole_shape == (256, 64)
    assert tensors["up.weight"].count == 4
    assert tensors["experts.weight"].count == 8 * 4
    assert tensors["router.weight"].bytes == 8 * 64 * 4
    assert tensors["up.weight"].bytes == 256 * 64 * 2


def test_tensor_parallelism_splits_the_dimension_that_it_says():
    tensors = held(job("ddp", tensor_parallel_degree=4))

    assert tensors["up.weight"].shape == (64, 64)
    assert tensors["down.weight"].shape == (64, 64)
    assert tensors["norm.weight"].shape == (64,)
    assert tensors["embedding.weight"].shape == (250, 64)


def test_experts_are_shared_out_whole_and_split_by_their_own_degree():
    tensors = held(
        job("ddp", tensor_parallel_degree=2, expert_parallel_degree=4, expert_tensor_parallel_degree=1)
    )

    assert (tensors["experts.weight"].shape, tensors["experts.weight"].count) == ((128, 64), 2 * 4)
    assert tensors["stacked"].shape == (2, 128, 64)
    assert held(job("ddp", tensor_parallel_degree=2))["stacked"].shape == (8, 64, 64)


def test_fsdp2_gives_the_first_rank_the_ceiling():
    """torch.chunk of 1000 rows over 16 ranks: 63 rows for the first, 55 for the last."""
    tensors = held(job(data_parallel_shard_degree=16))

    assert tensors["embedding.weight"].shape == (63, 64)
    assert tensors["embedding.weight"].whole_shape == (1000, 64)
    assert tensors["norm.weight"].shape == (4,)
    assert tensors["router.weight"].shape == (1, 64)


def test_experts_are_sharded_over_what_their_parallelism_leaves():
    """16 ranks share 4-way experts that tensor parallelism of 2 splits: 16 * 2 / (4 * 2) = 4."""
    found = job(data_parallel_shard_degree=16, tensor_parallel_degree=2, expert_parallel_degree=4)

    assert shard_ranks(found, is_expert=True) == 4


@pytest.mark.parametrize("kind", ["ddp", "zero1", "zero2", "megatron", "megatron_distributed"])
def test_kinds_that_leave_parameters_whole(kind):
    assert held(job(kind, data_parallel_shard_degree=8))["up.weight"].shape == (256, 64)


def test_zero_3_flattens():
    """64 * 256 elements over 5 ranks, rounded up."""
    assert held(job("zero3", data_parallel_shard_degree=5))["down.weight"].shape == (3277,)


def test_a_stage_holds_its_own_layers_and_ends():
    found = job("ddp", pipeline_parallel_degree=2)
    first, last = held(found, 0), held(found, 1)

    assert first["up.weight"].count == last["up.weight"].count == 2
    assert ("embedding.weight" in first, "final.weight" in first) == (True, False)
    assert ("embedding.weight" in last, "final.weight" in last) == (False, True)


@pytest.mark.parametrize("reason", [{"tied": True}, {"prediction_layers": 1}])
def test_on_one_stage_the_table_is_there_once(reason):
    [stage] = stages_of(job("ddp", **reason))
    tables = [found for found in local_tensors(stage, INVENTORY) if found.name == "embedding.weight"]

    assert [(table.count, table.layer) for table in tables] == [(1, "embedding")]


@pytest.mark.parametrize("reason", [{"tied": True}, {"prediction_layers": 1}])
def test_the_last_stage_has_a_table_of_its_own(reason):
    last = held(job("ddp", pipeline_parallel_degree=2, **reason), 1)

    assert (last["embedding.weight"].shape, last["embedding.weight"].layer) == ((1000, 64), "head")
