"""From a scenario's fields to the job, the program that runs it, and the budget that it is held to."""

import importlib.util
import json

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.scenarios.job import Adapter, DataParallel, Generation, Job, Loss, Precision

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}
LLAMA = f"{{config: {json.dumps(CONFIG)}}}"
SHAPE = "{shape: {hidden: 64, layers: 4, heads: 4, intermediate: 128, vocab: 1000}}"


@pytest.fixture(autouse=True)
def _every_library_is_there(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


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


# What runs it


@pytest.mark.parametrize(
    ("model", "fields", "recipe"),
    [
        (LLAMA, "", "transformers"),
        (LLAMA, "implementation: plain", "plain"),
        (SHAPE, "", "plain"),
        ("{torchtitan: 8B}", "", "torchtitan"),
    ],
)
def test_a_scenario_is_the_program_of_its_recipe(folder, model, fields, recipe):
    scenario = folder.scenario(f"gib: 1\nmodel: {model}\nenvironment: {{A: b}}\n{fields}")

    module, name, words = scenario.program.words
    assert (module, name) == ("-m", f"pytest_membudget.recipes.{recipe}")
    assert importlib.import_module("pytest_membudget.recipes").__path__
    assert Job.from_json(json.loads(words)) == scenario.job
    assert (scenario.program.cwd, scenario.program.environment) == (str(folder.path), (("A", "b"),))


def test_formulas_run_nothing(folder):
    assert folder.scenario(f"gib: 1\nmodel: {SHAPE}\nimplementation: formulas").program is None


# The model


def test_a_config_is_found_from_the_files_folder(folder):
    (folder.path / "configs" / "small").mkdir(parents=True)
    for path in ("configs/small.json", "configs/small/config.json"):
        (folder.path / path).write_text(json.dumps(CONFIG))

    for written in ("configs/small.json", "configs/small"):
        model = folder.scenario(f"gib: 1\nmodel: {written}").job.model
        assert (model.source, model.name, model.values) == ("config", "small", CONFIG)


def test_the_content_of_a_config_is_part_of_what_is_run(folder):
    """So an estimate that is kept is not that of the file before it changed."""
    words = []
    for layers in (4, 5):
        (folder.path / "small.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": layers}))
        words.append(folder.scenario("gib: 1\nmodel: small.json").program.words)

    assert words[0] != words[1]


def test_megatrons_arguments_have_its_names(job_of):
    written = "{megatron: {--num_layers: 4, hidden-size: 64, --num-attention-heads: 2}}"
    model = job_of("implementation: formulas", written).model

    assert model.values == {"num-layers": 4, "hidden-size": 64, "num-attention-heads": 2}


def test_formulas_say_what_they_do_not_read_and_what_cannot_be(mistakes_of):
    text = mistakes_of("implementation: formulas\noptimizer: {clips_gradients: true}\nvirtual_stages: 2")

    assert "formulas do not read it" in text
    assert "several are of pipeline_parallel_schedule: Interleaved1F1B" in text


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("nowhere.json", "nowhere.json cannot be read (No such file or directory); write its path"),
        ("{shape: {}, config: a}", "f.membudget.yaml:4: model.shape: {}: write a table of keys and values"),
        ("{config: a, torchtitan: 8B}", "f.membudget.yaml:4: write exactly one of model.config"),
        ("{config: {hidden_size: 3}}", "model.config: {hidden_size: 3}: there is no model_type"),
        ("{shape: {hiden: 3}}", "f.membudget.yaml:4: model: model.shape.hiden is not known"),
        (
            SHAPE.replace("vocab", "positions: 8, vocab"),
            "f.membudget.yaml:4: model: shape has learned positions, and implementation: plain is a Llama",
        ),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_read_is_refused_with_its_line(mistakes_of, model, told):
    assert told in mistakes_of(model=model)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "a.json/config.json cannot be read (No such file or directory)"),  # a folder
        (b"", "a.json is no JSON"),
        (b'{"model_type":', "a.json is no JSON"),
        (b"\xff\xfe\x00", "a.json is no JSON"),
        (b"[1, 2]", "a.json: there is no model_type in it; write a Hugging Face config.json"),
        (b'{"model_type": null}', "there is no model_type in it"),
        (b'{"model_type": "llamma"}', "model_type 'llamma' is no decoder that formulas know"),
        (b'{"model_type": "llama", "hidden_size": "64"}', "hidden is '64'; write a whole number"),
        (b'{"model_type": "llama", "hidden_size": -64}', "hidden is -64; write a whole number"),
        (b'{"model_type": "llama", "num_attention_heads": 3}', "is no multiple of 3 heads; write head_dim"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_its_line(folder, content, told):
    if content is None:
        (folder.path / "a.json").mkdir()
    else:
        (folder.path / "a.json").write_bytes(content)

    said = folder.scenario("gib: 1\nmodel: a.json\nimplementation: formulas")
    assert said.startswith("f.membudget.yaml:4: ")
    assert told in said


# The step


def test_every_part_of_a_job_can_be_written(job_of):
    job = job_of(
        """
        method: {kind: dora, rank: 8, targets: [q_proj, v_proj], dropout: 0.1}
        optimizer: {name: adamw, library: bitsandbytes, bits: 8}
        precision: {policy: autocast, parameters: fp32, compute: bf16}
        checkpointing: {mode: selective, every: 3}
        micro_batch: 3
        sequence: 512
        accumulation: 4
        loss: {kind: chunked, chunks: 4}
        attention: efficient
        offload: [activations]
        compiled: true
        data_parallel: {kind: fsdp2, reshards_after_forward: false}
        data_parallel_replicate_degree: 2
        data_parallel_shard_degree: 4
        """.replace("\n        ", "\n"),
        LLAMA,
    )

    assert job.adapter == Adapter("dora", 8, ("q_proj", "v_proj"), dropout=0.1)
    assert (job.optimizer.library, job.optimizer.bits) == ("bitsandbytes", 8)
    assert job.precision == Precision("autocast", "fp32", "bf16")
    assert (job.checkpointing.mode, job.checkpointing.every) == ("selective", 3)
    assert (job.micro_batch, job.sequence, job.accumulation) == (3, 512, 4)
    assert job.loss == Loss("chunked", 4)
    assert (job.attention, job.offload, job.compiled) == ("efficient", ("activations",), True)
    assert job.data_parallel == DataParallel("fsdp2", reshards_after_forward=False)
    assert job.degrees.gpus == 8


def test_short_forms_are_the_main_field(job_of):
    job = job_of("optimizer: sgd\nprecision: fp32\ncheckpointing: full\nloss: chunked\ndata_parallel: ddp")

    assert job.optimizer.name == "sgd"
    assert job.precision.parameters == "fp32"
    assert (job.checkpointing.mode, job.loss.kind, job.data_parallel.kind) == ("full", "chunked", "ddp")


def test_qlora_is_lora_on_a_base_of_four_bits(job_of):
    job = job_of("method: {kind: qlora, rank: 8, targets: all-linear}", LLAMA)

    assert job.adapter == Adapter("qlora", 8, ("all-linear",), base="nf4")


def test_generation_has_a_prompt(job_of):
    job = job_of("generate: {prompt: 100, new_tokens: 20, cache: static}")

    assert job.generation == Generation(100, 20, "static")


def test_torchtitan_computes_in_bf16_on_fp32_parameters(job_of):
    """``training.dtype`` and ``mixed_precision_param`` of torchtitan/config/job_config.py, v0.2.2."""
    assert job_of("gpus: 8", "{torchtitan: 8B}").precision == Precision("fsdp", "fp32", "bf16", "fp32")


# The GPUs


@pytest.mark.parametrize(
    ("fields", "shards", "replicas"),
    [
        ("", 1, 1),
        ("gpus: 8", 8, 1),
        ("gpus: 8\ndata_parallel: ddp", 1, 8),
        ("gpus: 8\ndata_parallel: zero1", 1, 8),
        ("gpus: 8\ntensor_parallel_degree: 2", 4, 1),
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
        ("sequence_parallel: true", "sequence_parallel: there is no tensor_parallel_degree that it is with"),
        (
            "gpus: 2\ndata_parallel: zero3",
            "data_parallel: torch has no zero3; write fsdp2, or implementation: f",
        ),
        (
            "gpus: 4\ntensor_parallel_degree: 2\ndata_parallel: ddp",
            "data_parallel: ddp is for whole models here",
        ),
    ],
)
def test_degrees_that_do_not_go_together_are_refused(mistakes_of, fields, told):
    assert told in mistakes_of(fields)


# What does not go together


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("method: lora", "method: lora needs rank and targets, as in method: {kind: lora, rank: 16"),
        ("method: {kind: full, rank: 8}", "method: full has no rank; write kind: lora, or leave it out"),
        ("method: {rank: 8}", "method.kind is missing"),
        ("generate: {new_tokens: 1}", "generate.prompt is missing"),
        (
            "micro_bacth: 2",
            "f.membudget.yaml:5: micro_bacth: 2: there is no field micro_bacth; did you mean micro_batch?",
        ),
        (
            "batch_size: 2",
            "f.membudget.yaml:5: batch_size: 2: there is no field batch_size; ",
        ),
        ("micro_batch: two", "f.membudget.yaml:5: micro_batch: two: write a whole number of at least 1"),
    ],
)
def test_fields_that_cannot_be_read_are_refused(mistakes_of, fields, told):
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
        max_growth: 1%
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
        max_growth="1%",
    )


def test_the_settings_are_the_defaults_of_what_is_not_written(folder):
    scenario = folder.scenario(f"model: {SHAPE}", {"gpu": "T4", "metric": "device"})

    assert (scenario.budget.gpu, scenario.budget.metric) == ("T4", "device")


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
