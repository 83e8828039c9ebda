"""From a scenario's fields to the job that is reckoned and the budget it is held to."""

import json

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.formulas.job import Adapter, DataParallel, Generation, Loss, Precision

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}
SHAPE = "{shape: {hidden: 64, layers: 4, heads: 4, intermediate: 128, vocab: 1000}}"
EXPERTS = (
    "{shape: {hidden: 64, layers: 2, heads: 4, vocab: 1000, experts: 8, experts_per_token: 2, "
    "expert_intermediate: 32}}"
)
MEGATRON = (
    "{num-layers: 4, hidden-size: 64, num-attention-heads: 4, vocab-size: 1000, seq-length: 512, bf16: true, "
    "max-position-embeddings: 512, micro-batch-size: 3, tensor-model-parallel-size: 2}"
)


@pytest.fixture
def job_of(folder):
    """The job of a budget with these fields, ``gib`` and a small model beside them."""

    def read(fields="", model=SHAPE):
        found = folder.scenario(f"gib: 1\nmodel: {model}\n{fields}")
        assert not isinstance(found, str), found
        return found.job

    return read


@pytest.fixture
def mistakes_of(folder):
    def read(fields="", model=SHAPE, gib="gib: 1"):
        found = folder.scenario(f"{gib}\nmodel: {model}\n{fields}")
        assert isinstance(found, str), "there is no mistake in it"
        return found

    return read


# The model


def test_a_config_is_found_from_the_files_folder(folder):
    (folder.path / "configs").mkdir()
    (folder.path / "configs" / "small.json").write_text(json.dumps(CONFIG))

    job = folder.scenario("gib: 1\nmodel: configs/small.json").job

    assert (job.model.name, job.model.vocab, job.model.decoder.layer_count) == ("small", 1000, 4)


def test_a_config_can_be_written_out(job_of):
    assert job_of(model=f"{{config: {json.dumps(CONFIG)}}}").model.hidden == 64


def test_a_config_that_has_changed_is_read_again(folder):
    import os

    file = folder.path / "small.json"
    for time, layers in ((1, 4), (2, 5)):
        file.write_text(json.dumps({**CONFIG, "num_hidden_layers": layers}))
        os.utime(file, (time, time))
        assert folder.scenario("gib: 1\nmodel: small.json").job.model.decoder.layer_count == layers


def test_a_shape_and_a_flavor_of_torchtitan_are_models(job_of):
    assert job_of(model=SHAPE).model.decoder.layer_count == 4
    assert job_of(model="{torchtitan: 8B}").model.hidden == 4096
    assert job_of(model="{torchtitan: {flavor: 8B, n_layers: 2}}").model.decoder.layer_count == 2


def test_megatrons_arguments_are_a_whole_job(job_of):
    job = job_of("gpus: 4", model=f"{{megatron: {MEGATRON}}}")

    assert (job.implementation, job.micro_batch, job.sequence) == ("megatron", 3, 512)
    assert (job.degrees.tensor_parallel_degree, job.degrees.data_parallel_shard_degree) == (2, 2)
    assert job.model.vocab == 1024  # 1000 up to a multiple of 128 x 2


def test_a_scenarios_own_fields_rule_over_megatrons_arguments(job_of):
    job = job_of(
        "gpus: 8\nmicro_batch: 5\ntensor_parallel_degree: 4\noptimizer: {clips_gradients: false}",
        model=f"{{megatron: {MEGATRON}}}",
    )

    assert (job.micro_batch, job.degrees.tensor_parallel_degree, job.degrees.gpus) == (5, 4, 8)
    assert job.optimizer.library == "megatron"
    assert not job.optimizer.clips_gradients


def test_without_gpus_megatrons_degrees_say_how_many_there_are(job_of):
    assert job_of(model=f"{{megatron: {MEGATRON}}}").degrees.gpus == 2


def test_megatron_runs_other_models_too_with_arguments_of_its_own(job_of):
    job = job_of("implementation: megatron\nmegatron: {transformer-impl: local}\nprecision: {reduce: bf16}")

    assert job.precision == Precision("megatron", "bf16", "bf16", reduce="bf16", gradients="fp32")
    assert job.data_parallel.kind == "megatron_distributed"
    assert job.megatron.transformer_impl == "local"


def test_arguments_that_nothing_reads_are_refused_where_they_are_written(mistakes_of):
    megatron = "implementation: megatron\nmegatron: {%s}"

    assert "f.membudget.yaml:6: megatron: num-layers is the model's, which model: says" in mistakes_of(
        megatron % "num-layers: 3"
    )
    assert (
        "f.membudget.yaml:6: Megatron arguments: Megatron-LM has no argument transformer-imp"
        in mistakes_of(megatron % "transformer-imp: local")
    )
    assert (
        "f.membudget.yaml:4: model.megatron: use-megatron-fsdp=True changes what a rank holds"
        in mistakes_of(model=f"{{megatron: {MEGATRON[:-1]}, use-megatron-fsdp: true}}}}")
    )


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("nowhere.json", "f.membudget.yaml:4: "),
        (
            "{shape: {hiden: 3}}",
            "f.membudget.yaml:4: model.shape: hiden is not known. Did you mean 'hidden'?",
        ),
        ("{torchtitan: 9B}", "f.membudget.yaml:4: model.torchtitan: flavor='9B' is not known"),
        ("{config: {model_type: nothing}}", "f.membudget.yaml:4: model.config"),
        ("{shape: {}, config: a}", "f.membudget.yaml:4: model.shape: {}: write a table of keys and values"),
        ("{config: a, torchtitan: 8B}", "f.membudget.yaml:4: write exactly one of model.config"),
        (
            f"{{megatron: {MEGATRON.replace('vocab-size', 'vocab-sise')}}}",
            "f.membudget.yaml:4: model.megatron: ",
        ),
    ],
)
def test_a_model_that_cannot_be_read_is_refused_with_its_line(mistakes_of, model, told):
    assert told in mistakes_of(model=model)


# The step


def test_every_part_of_a_job_can_be_written(job_of):
    job = job_of(
        """
        method: {kind: dora, rank: 8, targets: [q_proj, v_proj], type: bf16, dropout: 0.1}
        optimizer: {name: adamw, library: bitsandbytes, bits: 8}
        precision: {policy: autocast, parameters: fp32, compute: bf16}
        checkpointing: {mode: selective, every: 2}
        micro_batch: 3
        sequence: 512
        accumulation: 4
        loss: {kind: chunked, chunks: 4, upcasts: false}
        attention: efficient
        offload: [optimizer_states, parameters]
        zeroes_to_none: false
        expandable_segments: true
        data_parallel: {kind: zero2, bucket_mib: 50}
        data_parallel_replicate_degree: 2
        data_parallel_shard_degree: 4
        """.replace("\n        ", "\n")
    )

    assert job.adapter == Adapter(8, ("q_proj", "v_proj"), is_dora=True, number_type="bf16", dropout=0.1)
    assert (job.optimizer.library, job.optimizer.bits) == ("bitsandbytes", 8)
    assert job.precision == Precision("autocast", "fp32", "bf16")
    assert (job.checkpointing.mode, job.checkpointing.every) == ("selective", 2)
    assert (job.micro_batch, job.sequence, job.accumulation) == (3, 512, 4)
    assert job.loss == Loss("chunked", 4, upcasts=False)
    assert job.attention == "efficient"
    assert job.offload == {"optimizer_states", "parameters"}
    assert not job.zeroes_to_none
    assert job.expandable_segments
    assert job.data_parallel == DataParallel("zero2", bucket_mib=50)
    assert job.degrees.gpus == 8


def test_short_forms_are_the_main_field(job_of):
    job = job_of("optimizer: sgd\nprecision: fp32\ncheckpointing: full\nloss: fused\ndata_parallel: ddp")

    assert job.optimizer.name == "sgd"
    assert job.precision.parameters == "fp32"
    assert (job.checkpointing.mode, job.loss.kind, job.data_parallel.kind) == ("full", "fused", "ddp")


def test_qlora_is_lora_on_a_base_of_four_bits(job_of):
    job = job_of("method: {kind: qlora, rank: 8, targets: all-linear}")

    assert job.adapter == Adapter(8, ("all-linear",), base="nf4")


def test_generation_has_its_prompt_for_a_sequence(job_of):
    job = job_of("generate: {prompt: 100, new_tokens: 20, cache: paged, block_tokens: 32}\nsequence: 512")

    assert (job.task, job.sequence) == ("generate", 100)
    assert job.generation == Generation(20, "paged", block_tokens=32)


# The GPUs


@pytest.mark.parametrize(
    ("fields", "shards", "replicas"),
    [
        ("", 1, 1),
        ("gpus: 8", 8, 1),
        ("gpus: 8\ndata_parallel: ddp", 1, 8),
        ("gpus: 8\ntensor_parallel_degree: 2\ncontext_parallel_degree: 2", 2, 1),
        ("gpus: 8\ndata_parallel_replicate_degree: 2", 4, 2),
        ("gpus: 8\ndata_parallel_replicate_degree: 2\ndata_parallel_shard_degree: -1", 4, 2),
        ("data_parallel_shard_degree: 4\ndata_parallel_replicate_degree: 2", 4, 2),
    ],
)
def test_the_gpus_that_are_left_share_out_the_model(job_of, fields, shards, replicas):
    degrees = job_of(fields).degrees

    assert degrees.data_parallel_shard_degree == shards
    assert degrees.data_parallel_replicate_degree == replicas


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            "gpus: 8\ntensor_parallel_degree: 2\ndata_parallel_shard_degree: 2",
            "f.membudget.yaml:5: gpus: 8: the product of the degrees is 4 (data_parallel_shard_degree 2 x "
            "tensor_parallel_degree 2); write degrees that make 8",
        ),
        ("gpus: 6\ntensor_parallel_degree: 4", "gpus: 6: the product of the degrees is 4"),
        (
            "gpus: 8\ndata_parallel: ddp\ndata_parallel_replicate_degree: 2",
            "gpus: 8: the product of the degrees is 2",
        ),
        (
            "data_parallel_shard_degree: -1",
            "data_parallel_shard_degree: -1 is the GPUs that are left; write gpus: too",
        ),
        (
            "tensor_parallel_degree: 3",
            "f.membudget.yaml:5: tensor_parallel_degree: 3 does not divide the 4 heads",
        ),
        ("context_parallel_degree: 3", "context_parallel_degree: 3 does not divide the sequence of 2048"),
        ("pipeline_parallel_degree: 8", "pipeline_parallel_degree: 8 stages, and the model has 4 layers"),
        ("virtual_stages: 2", "virtual_stages: several are of pipeline_parallel_schedule: Interleaved1F1B"),
        (
            "pipeline_parallel_schedule: Interleaved1F1B",
            "pipeline_parallel_schedule: Interleaved1F1B has several model chunks; write virtual_stages: 2",
        ),
        ("expert_parallel_degree: 2\ngpus: 2", "expert_parallel_degree: 2, and the model has no experts"),
    ],
)
def test_degrees_that_do_not_go_together_are_refused(mistakes_of, fields, told):
    assert told in mistakes_of(fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("expert_parallel_degree: 3\ngpus: 3", "expert_parallel_degree: 3 does not divide the 8 experts"),
        (
            "expert_parallel_degree: 4\ngpus: 2",
            "expert_parallel_degree: 4 x 1 (tensor parallel) does not divide the 2 ranks of a stage",
        ),
    ],
)
def test_experts_are_shared_out_evenly_among_ranks_that_are_there(mistakes_of, fields, told):
    assert told in mistakes_of(fields, model=EXPERTS)


# What does not go together


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("method: lora", "method: lora needs rank and targets, as in method: {kind: lora, rank: 16"),
        ("method: {kind: full, rank: 8}", "method: full has no rank; write kind: lora, or leave it out"),
        ("method: {rank: 8}", "method.kind is missing"),
        ("loss: {kind: full, chunks: 2}", "loss: chunks is of kind: chunked, and this one is full"),
        ("checkpointing: {every: 2}", "checkpointing: every is of a mode that recomputes"),
        (
            "optimizer: {name: adafactor, implementation: fused}",
            "f.membudget.yaml:5: optimizer: adafactor has no fused",
        ),
        (
            "optimizer: {name: rprop, library: bitsandbytes}",
            "f.membudget.yaml:5: optimizer: bitsandbytes has no optimizer 'rprop'",
        ),
        ("generate: {new_tokens: 1}", "generate.prompt is missing"),
        (
            f"teacher: {SHAPE.replace('1000', '500')}",
            "teacher: its vocabulary is 500, the model's 1000: their logits cannot be compared",
        ),
        (
            f"teacher: {SHAPE}\ngenerate: {{prompt: 8, new_tokens: 1}}",
            "teacher: nothing is distilled in generation; leave teacher or generate out",
        ),
        (
            "megatron: {bf16: true}",
            "megatron: nothing reads these arguments here; write implementation: megatron",
        ),
        (
            "micro_bacth: 2",
            "f.membudget.yaml:5: micro_bacth: 2: there is no field micro_bacth; did you mean micro_batch?",
        ),
        (
            "batch_size: 2",
            "f.membudget.yaml:5: batch_size: 2: there is no field batch_size; did you mean micro_batch?",
        ),
        ("offload: [activations]", "f.membudget.yaml:5: offload: activations on the host depend on"),
        ("precision: {compute: fp8}", "f.membudget.yaml:5: precision: training in fp8 keeps"),
        (
            "gpus: 8\npipeline_parallel_degree: 2\ndata_parallel: {reshards_after_forward: false}",
            "f.membudget.yaml:6: pipeline_parallel_degree: FSDP2 keeps whole parameters and gradients",
        ),
        ("micro_batch: two", "f.membudget.yaml:5: micro_batch: two: write a whole number of at least 1"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(mistakes_of, fields, told):
    assert told in mistakes_of(fields)


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(mistakes_of):
    text = mistakes_of("sequence: 0\nloss: {knd: full}\nattention: flsh")

    assert [line.split(": ")[0] for line in text.splitlines()] == [f"f.membudget.yaml:{n}" for n in (5, 6, 7)]


# The budget


def test_the_budgets_fields_are_the_marks(folder):
    scenario = folder.scenario(
        f"""
        gib: 30
        gpu: a100-80gb
        gpus: 4
        metric: reserved
        components: {{activations: 3}}
        host_gib: 100
        reason: why
        model: {SHAPE}
        """
    )

    assert scenario.budget == Budget(
        gib=30,
        gpu="A100-80GB",
        gpus=4,
        metric="reserved",
        components={"activations": 3},
        host_gib=100,
        reason="why",
    )
    assert scenario.job.gpu == "A100-80GB"


def test_the_settings_are_the_defaults_of_what_is_not_written(folder):
    scenario = folder.scenario(f"model: {SHAPE}", {"gpu": "T4", "metric": "device"})

    assert (scenario.budget.gpu, scenario.budget.metric, scenario.job.gpu) == ("T4", "device", "T4")


@pytest.mark.parametrize(
    ("gib", "told"),
    [
        ("gib: 1\ngpu: H200X", "f.membudget.yaml:4: gpu: H200X: 'H200X' is not in the catalogue"),
        (
            "gib: 1\ncomponents: {cached: 1}",
            "components: {cached: 1}: cached is no part of allocated memory, so its budget would check "
            "nothing; write metric: reserved, or leave cached out",
        ),
        ("gib: -1", "f.membudget.yaml:3: gib: -1: write a finite number of GiB above 0, as in gib: 40"),
        ("gib: 40GB", "f.membudget.yaml:3: gib: 40GB: write a finite number of GiB above 0, as in gib: 40"),
        ("gib: 1\nmetric: alocated", "metric: alocated: write allocated; the values are"),
        (
            "gib: 1\ncomponents: {activation: 1}",
            "components.activation: 1: there is no component activation in components; did you mean a",
        ),
    ],
)
def test_a_budget_that_checks_nothing_or_cannot_is_refused(mistakes_of, gib, told):
    assert told in mistakes_of(gib=gib)
