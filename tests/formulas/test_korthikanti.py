"""The published formulas, with the papers' own examples, and Megatron's tapes against them."""

import pytest

from pytest_membudget.formulas.implementations.megatron import left_by
from pytest_membudget.formulas.implementations.megatron_recompute import layer_blocks
from pytest_membudget.formulas.implementations.megatron_sizes import sizes_of
from pytest_membudget.formulas.job import Checkpointing, Degrees, Job, Precision
from pytest_membudget.formulas.megatron_options import MegatronOptions
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Norm, Stack
from pytest_membudget.formulas.pipeline import stages_of
from tests.formulas.korthikanti import (
    LayerShape,
    ends_bytes,
    first_stage_bytes,
    layer_bytes,
    zero_bytes,
)

#: Table 3 of the paper: GPT-3 and MT-NLG, 8-way tensor parallel.
GPT3 = LayerShape(s=2048, b=1, h=12288, a=96, t=8)
MT_NLG = LayerShape(s=2048, b=1, h=20480, a=128, t=8)


def test_attentions_part():
    """Section 5: 5as/h is 80 for GPT-3 and 64 for MT-NLG."""
    assert GPT3.attention == 80
    assert MT_NLG.attention == 64


@pytest.mark.parametrize(("shape", "saved"), [(GPT3, 0.70), (MT_NLG, 0.65)])
def test_selective_recompute_saves_what_the_paper_says(shape, saved):
    """Section 5: it saves 70% and 65% of the activations of GPT-3 and MT-NLG."""
    whole = layer_bytes(shape, sequence_parallel=True)
    selective = layer_bytes(shape, sequence_parallel=True, recompute="selective")

    assert float(1 - selective / whole) == pytest.approx(saved, abs=0.005)


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


def test_the_interleaved_schedule_holds_more():
    """Section 4.2.3: L(1 + (p-1)/(pm)); MT-NLG's 35 stages of 3 chunks: 1 + 34/105."""
    plain = first_stage_bytes(MT_NLG, 105, pipeline=35, sequence_parallel=True)
    more = first_stage_bytes(MT_NLG, 105, pipeline=35, chunks=3, sequence_parallel=True)

    assert float(more / plain) == pytest.approx(1 + 34 / 105)


def test_the_ends():
    """Section 4.3 by hand: sbhp/t, and without stages 4sbh/t (1 + v/h)."""
    shape = LayerShape(4, 2, 8, 2, 2)

    assert ends_bytes(shape, 32, pipeline=4) == 64 * 4 / 2
    assert ends_bytes(shape, 32) == 32 + 4 * 32 * 5


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zeros_example(stage, gigabytes):
    """Figure 1 of the ZeRO paper: 7.5 billion parameters over 64 GPUs, in GB."""
    assert float(zero_bytes(7_500_000_000, 64, stage)) / 1e9 == pytest.approx(gigabytes, abs=0.05)


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
