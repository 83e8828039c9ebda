"""Megatron-LM's ranks against hand arithmetic: recomputation, buffers, gradients, interleaved chunks."""

import pytest

from pytest_membudget.components import BUFFERS, GRADIENTS, OPTIMIZER_STATES, PARAMETERS, WORKSPACES
from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.implementations.megatron import after_step, left_by, step_of
from pytest_membudget.formulas.implementations.megatron_recompute import layer_blocks
from pytest_membudget.formulas.implementations.megatron_sizes import sizes_of
from pytest_membudget.formulas.implementations.megatron_static import static_terms
from pytest_membudget.formulas.job import Checkpointing, DataParallel, Degrees, Generation, Job, Precision
from pytest_membudget.formulas.megatron_options import MegatronOptions
from pytest_membudget.formulas.model import Attention, Experts, FeedForward, Layer, Model, Norm, Stack
from pytest_membudget.formulas.parameters import inventory_of, parameter_count
from pytest_membudget.formulas.pipeline import stages_of
from pytest_membudget.formulas.sharding import local_tensors
from pytest_membudget.formulas.terms import by_component, total_bytes

NORM = Norm("layer", bias=True)
DENSE = Layer(
    Attention(4, 4, 16, fused_qkv=True), FeedForward(256, gated=False, activation="gelu", bias=True), NORM
)
#: b s h of the jobs below, in bytes of bf16: what a layer's input takes.
INPUT = 2 * 32 * 64 * 2


def job(*, layers=4, layer=DENSE, options=None, kind="megatron", **more):
    model = Model(
        "m", "megatron", 128, Stack(((layer, layers),), 64, final_norm=NORM), tied=True, positions=32
    )
    return Job(
        model,
        implementation="megatron",
        micro_batch=2,
        sequence=32,
        precision=Precision("megatron", "bf16", "bf16"),
        data_parallel=DataParallel(kind=kind),
        megatron=options or MegatronOptions(),
        **more,
    )


def terms_of(found, stage=0):
    one = stages_of(found)[stage]
    return static_terms(one, local_tensors(one, inventory_of(found.model)))


def kept_by_layers(found):
    (stage,) = stages_of(found)
    return total_bytes(left_by(layer_blocks(sizes_of(stage), stage.groups)))


def test_18_bytes_a_parameter():
    """Parameters 2, main_grad 4, fp32 copy 4, two moments 8."""
    found = job()
    sums = by_component(terms_of(found))
    count = parameter_count(found.model)

    assert sums[PARAMETERS] == 2 * count
    assert sums[GRADIENTS] == 4 * count
    assert sums[OPTIMIZER_STATES] == 12 * count


def test_the_distributed_optimizer_shards_states_alone():
    """6 bytes a parameter, and 12 over 4 ranks."""
    found = job(kind="megatron_distributed", degrees=Degrees(data_parallel_shard_degree=4))
    sums = by_component(terms_of(found))
    count = parameter_count(found.model)

    assert sums[PARAMETERS] + sums[GRADIENTS] == 6 * count
    assert sums[OPTIMIZER_STATES] == pytest.approx(3 * count, abs=12)


def test_16_bit_gradients_are_copied_for_the_step_and_stay_until_the_next():
    found = job(options=MegatronOptions(gradients_in_16_bits=True))
    (stage,) = stages_of(found)
    tensors = local_tensors(stage, inventory_of(found.model))
    count = parameter_count(found.model)

    assert by_component(terms_of(found))[GRADIENTS] == 2 * count
    assert total_bytes(step_of(stage, tensors).optimizer_temporaries) == 4 * count
    assert total_bytes(after_step(stage, tensors)) - total_bytes(
        term for term in terms_of(found) if term.component != "inputs"
    ) == pytest.approx(4 * count)


def test_stand_ins_one_a_shape():
    """qkv 192x64, projection 64x64, fc1 256x64, fc2 64x256, the tied head 128x64, all of bf16."""
    found = by_component(terms_of(job()))[BUFFERS]

    assert found == 2 * (192 * 64 + 64 * 64 + 256 * 64 + 64 * 256 + 128 * 64)
    assert BUFFERS not in by_component(
        terms_of(job(options=MegatronOptions(gradient_accumulation_fusion=False)))
    )


def test_the_local_layers_scores_have_a_buffer_that_stays():
    """b*a*s*s*2 = 2*4*32*32*2."""
    options = MegatronOptions(transformer_impl="local", gradient_accumulation_fusion=False)

    assert by_component(terms_of(job(options=options)))[BUFFERS] == 2 * 4 * 32 * 32 * 2


def test_workspaces_by_card():
    """Two of cuBLAS as asked; Transformer Engine's 4 MiB on an A100, 32 MiB on an H100."""
    options = MegatronOptions(cublas_workspace_bytes=2**25)

    assert by_component(terms_of(job(options=options, gpu="A100-80GB")))[WORKSPACES] == 2**26 + 2**22
    assert by_component(terms_of(job(options=options, gpu="H100")))[WORKSPACES] == 2**26 + 2**25


def test_uniform_recompute_keeps_one_input_a_piece():
    assert kept_by_layers(job(checkpointing=Checkpointing("full", layers=1))) == 4 * INPUT
    assert kept_by_layers(job(checkpointing=Checkpointing("full", layers=2))) == 2 * INPUT
    assert kept_by_layers(job(checkpointing=Checkpointing("full", layers=3))) == 2 * INPUT


def test_block_recompute_leaves_the_other_layers_whole():
    whole = kept_by_layers(job())
    found = kept_by_layers(job(checkpointing=Checkpointing("full", layers=3, is_by_block=True)))

    assert found == 3 * INPUT + whole // 4


def interleaved(**more):
    degrees = Degrees(
        pipeline_parallel_degree=2, virtual_stages=2, pipeline_parallel_schedule="Interleaved1F1B"
    )
    return job(layers=4, accumulation=4, degrees=degrees, **more)


def test_chunks_of_other_micro_batches_are_held():
    """Last rank, 2 chunks of a layer: 2 forwards of warm-up in chunk 0, then chunk 1 with the head."""
    found = interleaved()
    stage = stages_of(found)[1]
    step = step_of(stage, local_tensors(stage, inventory_of(found.model)))
    layer = kept_by_layers(job(layers=1))
    held = [term for term in step.gathered if term.component == "activations"]

    assert total_bytes(held) == 2 * layer
    assert any(block.name == "head and loss" for block in step.blocks)


def test_experts_have_buffers_and_ranks_of_their_own():
    """8 experts over 4 of 8 data-parallel ranks: a rank holds 2 and shards their states over 8/4 = 2."""
    sparse = Layer(
        Attention(4, 4, 16, fused_qkv=True), Experts(8, 2, 32, gated=False, activation="gelu"), NORM
    )
    found = job(
        layer=sparse,
        kind="megatron_distributed",
        degrees=Degrees(data_parallel_shard_degree=8, expert_parallel_degree=4),
    )
    names = {term.name: term.bytes for term in terms_of(found)}

    assert names["main_grad of experts"] == 4 * (4 * 2 * 2 * 64 * 32)
    assert names["exp_avg of experts"] == 4 * (4 * 2 * 2 * 64 * 32) // 2


def test_fp8_products_save_a_byte_an_element():
    plain = kept_by_layers(job(layers=1))
    narrow = kept_by_layers(job(layers=1, options=MegatronOptions(fp8="hybrid", fp8_recipe="tensorwise")))
    products = (
        2 * 32 * (64 + 64 + 64 + 256)
    )  # inputs of qkv, projection, fc1, fc2; flash still saves its output

    assert plain - narrow == 2 * products - products


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"task": "generate", "generation": Generation(8)}, "computed for training a whole model"),
        ({"degrees": Degrees(data_parallel_shard_degree=2), "kind": "fsdp2"}, "data parallelism 'fsdp2'"),
    ],
)
def test_what_is_refused(more, text):
    with pytest.raises(UsageMistake, match=text):
        estimate(job(**more))
