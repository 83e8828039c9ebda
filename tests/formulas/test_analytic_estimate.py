"""Whole jobs: the worked figures of published texts, and hand arithmetic over Llama 3 8B and its kin.

Llama 3 8B: 32 layers, hidden 4,096, 14,336 between, 32 heads, 8 of keys, vocabulary 128,256; 8,030,261,248
parameters (hf.co/meta-llama/Meta-Llama-3-8B).
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.estimate import estimate, peak_bytes, worst_of
from pytest_membudget.formulas.figures import report_of
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.job import (
    Checkpointing,
    DataParallel,
    Degrees,
    Generation,
    Job,
    Loss,
    Optimizer,
    Precision,
)
from pytest_membudget.formulas.terms import by_component, total_bytes

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
GIB, MIB, GB = 2**30, 2**20, 10**9
PARAMETERS = 8_030_261_248


def model(name):
    return read_config(json.loads((CONFIGS / f"{name}.json").read_text()))


LLAMA = model("llama-3-8b")
SHARDED = Precision("fsdp", parameters="fp32", compute="bf16", reduce="fp32")


def components(job):
    return {name: size for name, size in report_of(worst_of(estimate(job))).components.items() if size}


def moment(figure, name):
    [found] = [moment for moment in figure.moments if moment.name == name]
    return found


def test_llama_8b_on_one_card_by_hand():
    """bf16: parameters, gradients, two moments and foreach's list of roots are five times 14.96 GiB.

    Beside them 2,048 token numbers, and two cuBLAS workspaces of an H100's 32 MiB.
    """
    job = Job(LLAMA, gpu="H100-80GB")

    assert components(job) == {
        "parameters": 2 * PARAMETERS,
        "gradients": 2 * PARAMETERS,
        "optimizer_states": 4 * PARAMETERS,
        "temporaries": 2 * PARAMETERS,
        "inputs": 2048 * 8,
        "workspaces": 64 * MIB,
    }


def test_fsdp_over_eight_holds_an_eighth():
    """fp32 parameters, two moments: 12 bytes over 8 ranks, every tensor a multiple of 8 rows."""
    job = Job(LLAMA, gpu="H100-80GB", precision=SHARDED, degrees=Degrees(data_parallel_shard_degree=8))
    [figure] = estimate(job)

    assert figure.ranks == 8
    assert by_component(moment(figure, "start").terms)["parameters"] == 4 * PARAMETERS // 8
    assert by_component(moment(figure, "start").terms)["optimizer_states"] == 8 * PARAMETERS // 8
    assert by_component(moment(figure, "optimizer step").terms)["gradients"] == 4 * PARAMETERS // 8


def test_fsdps_root_holds_embedding_and_head_whole():
    """2 x 128,256 x 4,096 + 4,096 in bf16, gathered from the first forward to the last backward."""
    job = Job(LLAMA, precision=SHARDED, degrees=Degrees(data_parallel_shard_degree=8))
    [figure] = estimate(job)
    whole = 2 * (2 * 128_256 * 4096 + 4096)

    for name in ("forward of head", "backward of embedding"):
        gathered = [term for term in moment(figure, name).terms if term.name == "gathered parameters"]
        assert whole in [term.bytes for term in gathered], name
    for name in ("end of backward", "optimizer step"):  # it goes before its gradients are reduced
        assert not [term for term in moment(figure, name).terms if term.name == "gathered parameters"]


@pytest.mark.parametrize(("installed", "said"), [("2.13.0+cpu", 0), ("2.15.0", 1), ("", 0)])
def test_another_torch_than_the_formulas_is_named(monkeypatch, installed, said):
    monkeypatch.setattr("pytest_membudget.formulas.estimate.installed_torch", lambda: installed)
    [figure] = estimate(Job(LLAMA))

    assert str(figure).count("rules of torch 2.13") == said


def test_ddp_has_all_gradients_once_more():
    """reducer.cpp: buckets of all gradients, unless gradients are views of them."""
    ddp = Job(
        LLAMA,
        degrees=Degrees(data_parallel_replicate_degree=2),
        data_parallel=DataParallel("ddp"),
        optimizer=Optimizer(implementation="fused"),
    )
    views = replace(ddp, data_parallel=DataParallel("ddp", gradient_as_bucket_view=True))

    assert components(ddp)["collectives"] == 2 * PARAMETERS
    assert "collectives" not in components(views)


@pytest.mark.parametrize(
    ("kind", "bytes_a_parameter"),
    [("zero1", 2 + 2 + 12 / 8), ("zero2", 2 + 2 / 8 + 12 / 8), ("zero3", 16 / 8)],
)
def test_zero_shards_what_its_paper_says(kind, bytes_a_parameter):
    """Mixed precision with Adam: 2 + 2 + 12 bytes (arXiv:1910.02054, section 3.1), at the optimizer's step.

    Without the fp32 copies of gradients that the step makes.
    """
    job = Job(
        LLAMA,
        optimizer=Optimizer(implementation="fused", bits=32, keeps_master=True),
        degrees=Degrees(data_parallel_shard_degree=8),
        data_parallel=DataParallel(kind),
    )
    [figure] = estimate(job)
    sizes = by_component(moment(figure, "optimizer step").terms)
    held = sizes["parameters"] + sizes["gradients"] + sizes["optimizer_states"]

    assert held == pytest.approx(bytes_a_parameter * PARAMETERS, rel=0.001)


def test_offloaded_states_are_the_hosts():
    """Llama3-8B on two 48 GB cards (torchtitan): its fp32 states alone are 48 GB a card."""
    job = Job(
        LLAMA,
        precision=SHARDED,
        degrees=Degrees(data_parallel_shard_degree=2),
        checkpointing=Checkpointing("full"),
    )
    offloaded = replace(job, offload=frozenset({"parameters", "gradients", "optimizer_states"}))
    [kept], [moved] = estimate(job), estimate(offloaded)

    resident = by_component(moment(kept, "start").terms)
    assert resident["parameters"] + resident["optimizer_states"] == pytest.approx(48 * GB, rel=0.005)
    held = [term for term in moved.host if term.component != "temporaries"]
    assert total_bytes(held) == pytest.approx(16 * PARAMETERS / 2, rel=0.0001)
    assert moved.allocated_bytes < 24 * GB


def test_a_teacher_is_frozen_and_whole():
    """An 8B teacher beside a 3B student: 2 x 8.03 billion bytes that are never trained."""
    job = Job(model("llama-3.2-3b"), teacher=LLAMA, loss=Loss("chunked", 8))

    assert components(job)["frozen_parameters"] == 2 * PARAMETERS


def test_generation_holds_a_cache_and_no_states():
    """8 kv heads of 128, keys and values in bf16, 32 layers: 128 KiB a token."""
    job = Job(
        LLAMA,
        task="generate",
        sequence=1024,
        generation=Generation(new_tokens=1024, cache="static"),
        micro_batch=4,
    )
    found = components(job)
    [figure] = estimate(job)
    cache = [term for term in figure.peak.terms if term.name in ("key cache", "value cache")]

    assert found["parameters"] == 2 * PARAMETERS
    assert "optimizer_states" not in found
    assert "gradients" not in found
    assert sum(term.bytes for term in cache) == 4 * 2048 * 128 * 1024


def test_torchtunes_3b_uncompiled():
    """pytorch/torchtune@1814feb README: 2 x 4,096 tokens, AdamW, full cross entropy: 60.0 GiB active."""
    job = Job(model("llama-3.2-3b"), gpu="A100-80GB", micro_batch=2, sequence=4096)

    assert peak_bytes(job) == pytest.approx(60.0 * GIB, rel=0.05)


def test_of_several_stages_the_one_that_takes_most_is_reported():
    job = Job(LLAMA, degrees=Degrees(pipeline_parallel_degree=2), accumulation=4, sequence=4096)
    sizes = [figure.allocated_bytes for figure in estimate(job)]

    assert len(set(sizes)) == 2
    assert worst_of(estimate(job)).allocated_bytes == peak_bytes(job) == max(sizes)


def test_a_step_in_backward_cannot_accumulate():
    with pytest.raises(UsageMistake, match="cannot accumulate gradients"):
        estimate(Job(LLAMA, accumulation=2, optimizer=Optimizer(in_backward=True)))


@pytest.mark.parametrize("attention", ["math", "unfused"])
def test_dropout_on_weights_and_on_the_blocks_output(attention):
    """Both have a mask of their own: 16 heads x 512 x 512 and 512 x 1,024 bytes a layer and sequence."""
    shape = {
        "model_type": "bert",
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    job = Job(read_config(shape), sequence=512, attention=attention, precision=Precision("pure", "fp32"))
    kept = {term.name: term for term in moment(worst_of(estimate(job)), "backward of layers (last)").terms}

    assert kept["attention dropout mask"].bytes == 23 * 16 * 512 * 512
    assert kept["attention output dropout mask"].bytes == 23 * 512 * 1024


#: Tied tables that are embedding alone on a rank or in a task, and a table that two stacks look up.
WITH_TABLES = {
    "a classifier": ("bert", "BertForSequenceClassification", {}, {}),
    "a decoder that classifies": ("gemma", "GemmaForSequenceClassification", {}, {}),
    "no loss": ("gemma", "GemmaForCausalLM", {}, {"loss": Loss("none")}),
    "a head": ("gemma", "GemmaForCausalLM", {}, {}),
    "stages": ("gemma", "GemmaForCausalLM", {}, {"degrees": Degrees(pipeline_parallel_degree=2)}),
    "two stacks": ("t5", "T5ForConditionalGeneration", {"tie_word_embeddings": False}, {}),
    "two stacks and a head": ("t5", "T5ForConditionalGeneration", {}, {}),
}


@pytest.mark.parametrize("name", WITH_TABLES)
def test_every_parameter_has_its_gradient_when_the_optimizer_steps(name):
    family, architecture, config, settings = WITH_TABLES[name]
    model = read_config({"model_type": family, "architectures": [architecture], **config})

    for figure in estimate(Job(model, sequence=128, **settings)):
        sizes = by_component(moment(figure, "optimizer step").terms)
        assert sizes["gradients"] == sizes["parameters"]


def test_a_last_stage_adds_up_its_copy_of_a_tied_table():
    """With micro-batches its gradient is there from the start, and the one that backward makes goes."""
    model = read_config({"model_type": "gemma", "architectures": ["GemmaForCausalLM"]})
    degrees = Degrees(pipeline_parallel_degree=2)
    last = estimate(Job(model, sequence=128, accumulation=2, degrees=degrees))[-1]
    sizes = by_component(moment(last, "end of backward").terms)

    assert sizes["gradients"] == sizes["parameters"]
