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


WHOLE = ("ddp", "zero1", "zero2", "megatron", "megatron_distributed")


@pytest.mark.parametrize(
    ("kind", "degrees", "shapes"),
    [
        # tensor parallelism splits the dimension that a tensor says
        (
            "ddp",
            {"tensor_parallel_degree": 4},
            {
                "up.weight": (64, 64),
                "down.weight": (64, 64),
                "norm.weight": (64,),
                "embedding.weight": (250, 64),
            },
        ),
        ("ddp", {"tensor_parallel_degree": 2}, {"stacked": (8, 64, 64)}),
        # experts are shared out whole, and split by their own degree
        (
            "ddp",
            {"tensor_parallel_degree": 2, "expert_parallel_degree": 4, "expert_tensor_parallel_degree": 1},
            {"experts.weight": (128, 64), "stacked": (2, 128, 64)},
        ),
        # torch.chunk of 1000 rows over 16 ranks: 63 rows for the first, 55 for the last
        (
            "fsdp2",
            {"data_parallel_shard_degree": 16},
            {"embedding.weight": (63, 64), "norm.weight": (4,), "router.weight": (1, 64)},
        ),
        # replicas do not shard
        (
            "fsdp2",
            {"data_parallel_replicate_degree": 2, "data_parallel_shard_degree": 4},
            {"norm.weight": (16,)},
        ),
        # 64 * 256 elements over 5 ranks, rounded up
        ("zero3", {"data_parallel_shard_degree": 5}, {"down.weight": (3277,)}),
        *((kind, {"data_parallel_shard_degree": 8}, {"up.weight": (256, 64)}) for kind in WHOLE),
    ],
)
def test_what_a_rank_holds_of_a_tensor(kind, degrees, shapes):
    tensors = held(job(kind, **degrees))

    assert {name: tensors[name].shape for name in shapes} == shapes
    if "expert_parallel_degree" in degrees:
        assert tensors["experts.weight"].count == 2 * 4
    if kind == "fsdp2":
        assert tensors["embedding.weight"].whole_shape == (1000, 64)


def test_experts_are_sharded_over_what_their_parallelism_leaves():
    """16 ranks share 4-way experts that tensor parallelism of 2 splits: 16 * 2 / (4 * 2) = 4."""
    found = job(data_parallel_shard_degree=16, tensor_parallel_degree=2, expert_parallel_degree=4)

    assert shard_ranks(found, is_expert=True) == 4


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
