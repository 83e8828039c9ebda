# ruff: noqa: E501 - a mistake a line
"""What a recipe does not read, or no library has, is refused at its line, in words that say what to write."""

import importlib.util

import pytest

from tests.scenarios.conftest import Folder

SHAPE = "{shape: {hidden: 64, layers: 4, heads: 4, intermediate: 128, vocab: 1000}}"
LLAMA = "{config: {model_type: llama, num_attention_heads: 4, vocab_size: 1000}}"
TITAN = "{torchtitan: 8B}"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """``told(model, fields)``: the mistakes of such a budget; every library is there."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return lambda model, fields: Folder(tmp_path).scenario(f"gib: 1\nmodel: {model}\n{fields}")


@pytest.mark.parametrize(
    ("model", "fields", "mistake"),
    [
        (SHAPE, "gpus: 8\npipeline_parallel_degree: 8", "6: pipeline_parallel_degree: 8 stages, and the model has 4 layers"),
        (SHAPE, "gpus: 2\npipeline_parallel_degree: 2\nloss: chunked", "7: loss: no stage of a pipeline is run with it"),
        (SHAPE, "virtual_stages: 2", "virtual_stages: several are of pipeline_parallel_schedule: Interleaved1F1B"),
        (SHAPE, "method: {kind: lora, rank: 8, targets: q}", "5: method.kind: the recipe plain does not read it; write implementation: transformers or formulas"),
        (LLAMA, "gpus: 2\npipeline_parallel_degree: 2", "6: pipeline_parallel_degree: the recipe transformers does not read it; write implementation: plain or torchtitan or formulas"),
        (LLAMA, "optimizer: {keeps_master: true}", "5: optimizer.keeps_master: the recipe transformers does not read it; write implementation: formulas"),
        ("{megatron: {num-layers: 2}}", "", "2: implementation: no recipe runs Megatron-LM; write a script: of its pretrain_gpt.py"),
        (TITAN, "attention: eager", "5: attention: the recipe torchtitan does not read it; write implementation: transformers or plain"),
        (TITAN, "optimizer: sgd", "5: optimizer: torchtitan has adam and adamw, and this is sgd"),
        (TITAN, "precision: fp16", "5: precision: torchtitan has fp32 and bf16"),
        (TITAN, "offload: activations", "5: offload: torchtitan offloads parameters"),
        (TITAN, "implementation: plain", "5: implementation: plain runs no model.torchtitan; write torchtitan or formulas"),
        (LLAMA, "optimizer: lion", "5: optimizer: torch has no lion; it has adamw"),
        (LLAMA, "optimizer: {bits: 8}", "5: optimizer: bits: 8: write library: bitsandbytes too"),
        (LLAMA, "optimizer: {library: torchao, bits: 32}", "5: optimizer: bits: 32: torchao has 4 and 8"),
        (LLAMA, "optimizer: {library: bitsandbytes, name: sgd}", "bitsandbytes has no sgd without momentum"),
        (LLAMA, "optimizer: {library: bitsandbytes, name: rmsprop, is_paged: true}", "is_paged is of adamw, adam, lion"),
        (LLAMA, "optimizer: {is_paged: true}", "is_paged is of bitsandbytes; write library: bitsandbytes too"),
        (LLAMA, "optimizer: {library: bitsandbytes, implementation: fused}", "leave it out with bitsandbytes"),
        (LLAMA, "optimizer: {name: adafactor, implementation: fused}", "torch's adafactor is not fused"),
        (LLAMA, "optimizer: {momentum: true}", "momentum is of sgd and rmsprop, and this is adamw"),
        (LLAMA, "optimizer: {in_backward: true, clips_gradients: true}", "clips_gradients needs all; leave one out"),
        (LLAMA, "optimizer: {in_backward: true}\naccumulation: 2", "6: accumulation: with in_backward each micro-batch"),
        (LLAMA, "precision: {policy: fsdp}", "5: precision: policy: fsdp is FSDP2's; write gpus"),
        (LLAMA, "offload: parameters", "5: offload: parameters are offloaded by FSDP2; write gpus"),
        (LLAMA, "gpus: 2\ngenerate: {prompt: 1, new_tokens: 1}", "6: generate: is run on one GPU; leave gpus out"),
        (LLAMA, "gpus: 2\nmethod: {kind: qlora, rank: 8, targets: q}", "6: method: a quantised base is run on one GPU"),
        (LLAMA, f"teacher: {LLAMA.replace('1000', '500')}", "5: teacher: its vocabulary is 500, the model's 1000"),
        (LLAMA, f"teacher: {LLAMA}\ngenerate: {{prompt: 1, new_tokens: 1}}", "5: teacher: nothing is distilled in generation"),
        (LLAMA, "gpus: 2\ntensor_parallel_degree: 2\nloss: chunked", "7: loss: chunked is for a head that is not split"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line_and_what_to_write(told, model, fields, mistake):
    assert mistake in told(model, fields)


def test_another_release_of_torchtitan_is_named_with_the_one_that_is_known(told, monkeypatch):
    monkeypatch.setattr("pytest_membudget.recipes.known.version", lambda name: "0.3.0")

    assert "the recipe knows torchtitan 0.2, and 0.3.0 is installed; run pip install" in told(TITAN, "")
