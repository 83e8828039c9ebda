"""Megatron-LM's arguments as a job: degrees, batches, options, and what is refused."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.inputs.megatron_arguments import read_megatron
from pytest_membudget.formulas.megatron_job import megatron_job, read_layout
from pytest_membudget.formulas.pipeline import stages_of

SMALL = {
    "num-layers": 12, "hidden-size": 512, "num-attention-heads": 8, "seq-length": 1024,
    "max-position-embeddings": 1024, "micro-batch-size": 4, "global-batch-size": 32, "vocab-size": 50257,
}  # fmt: skip


def made(gpus=8, environment=None, **arguments):
    model, rest = read_megatron(SMALL | {key.replace("_", "-"): value for key, value in arguments.items()})
    return megatron_job(model, rest, gpus=gpus, environment=environment)


def test_what_is_left_of_the_gpus_is_data_parallel():
    """8 GPUs, tensor 2, pipeline 2: 2 data-parallel ranks, so 32 / (4*2) = 4 micro-batches."""
    job = made(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)

    assert job.degrees.data_parallel_shard_degree == 2
    assert job.degrees.gpus == 8
    assert job.accumulation == 4
    assert job.data_parallel.kind == "megatron"


def test_flags_turn_things_off():
    options = made(
        no_gradient_accumulation_fusion=True,
        no_bias_gelu_fusion=True,
        no_bias_swiglu_fusion=False,
        attention_backend="unfused",
        transformer_impl="local",
    ).megatron

    assert not options.gradient_accumulation_fusion
    assert not options.bias_activation_fusion
    assert (options.attention_backend, options.transformer_impl) == ("unfused", "local")


@pytest.mark.parametrize(
    ("arguments", "in_16_bits"),
    [
        ({"bf16": True}, False),
        ({"bf16": True, "grad_reduce_in_bf16": True}, True),
        ({"fp16": True}, True),
        ({"fp16": True, "accumulate_allreduce_grads_in_fp32": True}, False),
        ({}, False),
    ],
)
def test_gradients_type(arguments, in_16_bits):
    """megatron/training/arguments.py: bf16 accumulates in fp32 by itself, fp16 where it is asked to."""
    assert made(**arguments).megatron.gradients_in_16_bits is in_16_bits


def test_chunks_however_they_are_asked_for():
    by_layers = made(pipeline_model_parallel_size=4, num_layers_per_virtual_pipeline_stage=1)
    by_stages = made(pipeline_model_parallel_size=4, num_virtual_stages_per_pipeline_rank=3)
    by_layout = made(pipeline_model_parallel_size=2, pipeline_model_parallel_layout="Ettt|(ttt|)*2tttL")

    assert by_layers.degrees.virtual_stages == by_stages.degrees.virtual_stages == 3
    assert by_layout.degrees.virtual_stages == 2
    assert by_layout.degrees.pipeline_parallel_schedule == "Interleaved1F1B"


def test_ends_that_count_as_layers_count_in_chunks_too():
    """14 layers and two ends over 4 stages: 4 a stage, so two chunks of 2 (validate_args)."""
    job = made(
        num_layers=14,
        pipeline_model_parallel_size=4,
        num_layers_per_virtual_pipeline_stage=2,
        account_for_embedding_in_pipeline_split=True,
        account_for_loss_in_pipeline_split=True,
    )

    assert job.degrees.virtual_stages == 2
    assert [sum(count for _, count in stage.groups) for stage in stages_of(job)] == [3, 4, 4, 3]


def test_a_layouts_letters():
    assert read_layout("Et*3|(tt|)*2tmL") == (("E", "t", "t", "t"), ("t", "t"), ("t", "t"), ("t", "m", "L"))


def test_the_environments_workspace():
    """:4096:8 is eight of 4,096 KiB: 32 MiB."""
    assert made().megatron.cublas_workspace_bytes is None
    assert made(environment={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}).megatron.cublas_workspace_bytes == 2**25


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"tensor_model_parallel_size": 3}, "8 GPUs cannot be shared by tensor 3"),
        ({"global_batch_size": 30}, "global-batch-size=30 is no multiple of micro-batch-size=4 times 8"),
        ({"attention_backend": "fast"}, "attention-backend='fast' cannot be used; write one of auto"),
        (
            {"pipeline_model_parallel_size": 2, "pipeline_model_parallel_layout": "Exx|L"},
            "pipeline layout 'Exx|L' cannot be read",
        ),
        (
            {"pipeline_model_parallel_size": 4, "num_layers_per_virtual_pipeline_stage": 2},
            "num-layers-per-virtual-pipeline-stage=2 cannot be used; write a number that divides",
        ),
        (
            {"account_for_loss_in_pipeline_split": True, "decoder_first_pipeline_num_layers": 2},
            "account-for-loss-in-pipeline-split and decoder-first-pipeline-num-layers exclude each other",
        ),
        (
            {"account_for_embedding_in_pipeline_split": True, "pipeline_model_parallel_layout": "Et*6|t*6L"},
            "account-for-embedding-in-pipeline-split and pipeline-model-parallel-layout exclude each other",
        ),
        ({"seq_length": 0}, "seq-length=0 cannot be used"),
    ],
)
def test_what_is_refused(arguments, text):
    with pytest.raises(UsageMistake, match=text.replace("|", r"\|")):
        made(**arguments)
