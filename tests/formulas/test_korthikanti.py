"""The published formulas, with the papers' own examples, and Megatron's tapes against them."""

import pytest

from pytest_membudget.formulas.implementations.megatron import left_by
from pytest_membudget.formulas.implementations.megatron_recompute import layer_blocks
from pytest_membudget.formulas.implementations.megatron_sizes import sizes_of
from pytest_membudget.formulas.job import Checkpointing, Degrees, Job, Precision
from pytest_membudget.formulas.megatron_options import MegatronOptions
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Norm, Stack
from pytest_membudget.formulas.pipeline import stages_of
from tests.formulas.korthikanti import LayerShape, layer_bytes


def test_rows_of_table_2():
    """By hand for s=4, b=2, h=8, a=2, t=2: sbh = 64, 5as/h = 5."""
    shape = LayerShape(4, 2, 8, 2, 2)
    alone = LayerShape(4, 2, 8, 2)

    assert layer_bytes(alone) == 64 * 39
    assert layer_bytes(shape) == 64 * (10 + 12 + 2.5)
    assert layer_bytes(shape, sequence_parallel=True) == 32 * 39
    assert layer_bytes(shape, recompute="selective") == 64 * 22
    assert layer_bytes(shape, sequence_parallel=True, recompute="selective") == 32 * 34
    assert layer_bytes(shape, recompute="full") == 128


def left_of_a_layer(*, t=1, sequence_parallel=False, checkpointing=None):
    """Bytes that Megatron's local layer leaves, without what the paper leaves out: its norms' statistics."""
    layer = Layer(
        Attention(4, 4, 16, dropout=0.1),
        FeedForward(256, gated=False, activation="gelu", bias=True),
        Norm("layer", bias=True),
        dropout=0.1,
    )
    found = Job(
        Model("m", "megatron", 128, Stack(((layer, 1),), 64)),
        implementation="megatron",
        micro_batch=2,
        sequence=32,
        precision=Precision(parameters="bf16"),
        checkpointing=checkpointing or Checkpointing(),
        degrees=Degrees(tensor_parallel_degree=t, sequence_parallel=sequence_parallel),
        megatron=MegatronOptions(transformer_impl="local"),
    )
    (stage,) = stages_of(found)
    terms = left_by(layer_blocks(sizes_of(stage), stage.groups))
    return sum(term.bytes for term in terms if "statistics" not in term.name)


@pytest.mark.parametrize("t", [1, 2, 4])
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_megatrons_layer_is_the_published_one(t, sequence_parallel, recompute):
    """Two ways to one figure: the operators' saved tensors and the paper's sum.

    With full recompute and sequence parallelism Megatron keeps the rank's own rows, 2sbh/t.
    """
    checkpointing = {
        "none": Checkpointing(),
        "selective": Checkpointing("selective"),
        "full": Checkpointing("full", layers=1),
    }[recompute]
    published = layer_bytes(
        LayerShape(32, 2, 64, 4, t), sequence_parallel=sequence_parallel, recompute=recompute
    )
    if recompute == "full" and sequence_parallel:
        published /= t

    assert left_of_a_layer(t=t, sequence_parallel=sequence_parallel, checkpointing=checkpointing) == published
