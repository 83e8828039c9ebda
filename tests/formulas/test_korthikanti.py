"""Activations against Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models*
(arXiv:2205.05198): table 2, and sections 4.2.3 and 4.3. By hand for s=32, b=2, h=64, a=4: sbh = 4,096, 5as/h
= 10.
"""

import json

import pytest

from pytest_membudget.components import ACTIVATIONS, TEMPORARIES
from pytest_membudget.formulas.activations import kept_of
from pytest_membudget.formulas.peaks import figures_of
from pytest_membudget.formulas.ranks import Rank
from pytest_membudget.formulas.sources import decoder_of
from pytest_membudget.scenarios.job import Checkpointing, Degrees, Job, Model

SBH = 32 * 2 * 64


def gpt(
    *, t=1, layers=1, attention="eager", mode="none", stages=1, chunks=1, batches=1, sequence_parallel=False
):
    arguments = {
        "num-layers": layers, "hidden-size": 64, "num-attention-heads": 4, "vocab-size": 128,
        "max-position-embeddings": 32, "tensor-model-parallel-size": t,
    }  # fmt: skip
    return Job(
        Model("megatron", "gpt", json.dumps(arguments)),
        "formulas",
        attention,
        micro_batch=2,
        sequence=32,
        accumulation=batches,
        checkpointing=Checkpointing(mode),
        degrees=Degrees(
            tensor_parallel_degree=t,
            sequence_parallel=sequence_parallel,
            pipeline_parallel_degree=stages,
            virtual_stages=chunks,
            pipeline_parallel_schedule="Interleaved1F1B" if chunks > 1 else "1F1B",
        ),
    )


def layer_bytes(job):
    decoder = decoder_of(job.model)
    kept = kept_of(decoder.layers[0], Rank(job, decoder, 0))
    return kept.whole + kept.scores


@pytest.mark.parametrize("t", [1, 2, 4])
def test_tensor_parallelism_splits_24_of_34(t):
    assert layer_bytes(gpt(t=t)) == SBH * (10 + 24 / t + 10 / t)


@pytest.mark.parametrize("t", [2, 4])
def test_sequence_parallelism_splits_the_rest_too(t):
    assert layer_bytes(gpt(t=t, sequence_parallel=True)) == SBH / t * (34 + 10)


def test_flash_attention_drops_the_scores():
    assert layer_bytes(gpt(attention="sdpa")) == SBH * 34


def activations(**more):
    return [figure.moments[0].components[ACTIVATIONS] for figure in figures_of(gpt(**more))]


#: the embedding's dropout, and the inputs of the last norm and of the head
ENDS = SBH + 2 * SBH + 2 * SBH


def test_selective_recomputation_drops_the_scores():
    assert activations(layers=4, mode="selective") == [4 * SBH * 34 + ENDS]


def test_full_recomputation_keeps_each_layers_input():
    assert activations(layers=4, mode="full") == [4 * SBH * 2 + ENDS]


def test_recomputation_needs_a_whole_layer_again():
    backward = figures_of(gpt(layers=4, mode="full"))[0].moments[1]

    assert backward.components[TEMPORARIES] == SBH * (34 + 10) - 2 * SBH


def test_the_first_of_p_stages_holds_p_micro_batches():
    """L/p layers each: L layers' worth; the last one holds one, and the ends."""
    first, *_, last = activations(layers=4, stages=4, batches=8)

    assert first == 4 * SBH * 44 + 4 * SBH
    assert last == SBH * 44 + 4 * SBH


def test_fewer_micro_batches_than_stages_are_all_held():
    assert activations(layers=4, stages=4, batches=2)[0] == 2 * SBH * 44 + 2 * SBH


def test_the_interleaved_schedule_holds_more():
    """``L (1 + (p - 1) / (p m))`` layers' worth on the first stage: p = 2, m = 2 chunks, L = 4."""
    first, _ = activations(layers=4, stages=2, chunks=2, batches=8)

    assert first == (4 * SBH * 44 + 2 * SBH) * (1 + 1 / 4)


def test_the_logits_are_held_in_16_and_in_32_bits():
    """The paper has 4sbv; Megatron-LM keeps the 16-bit ones beside them."""
    loss = figures_of(gpt(t=2))[0].moments[0]

    # 128 rows are padded to 128 a rank
    assert loss.components[TEMPORARIES] == 32 * 2 * 256 / 2 * 6
