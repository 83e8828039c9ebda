"""Recipes as they run: what a rank holds of a small Llama, against arithmetic by hand."""

import importlib.util

import pytest

pytestmark = pytest.mark.slow

#: hidden 256, 4 layers, 8 heads of 32, 4 of keys and values, 512 inside, 1,024 words
MATRICES = 2 * 1024 * 256 + 4 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 256 * 512)
NORMS = (4 * 2 + 1) * 256
PARAMETERS = MATRICES + NORMS
#: rank 8 on queries (256 in, 256 out) and values (256 in, 128 out) of each layer
ADAPTERS = 4 * (8 * (256 + 256) + 8 * (256 + 128))
FILE = """
    defaults:
      gib: 1
      sequence: 32
      implementation: plain
      model: {config: {model_type: llama, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 4,
        num_attention_heads: 8, num_key_value_heads: 4, vocab_size: 1024}}
    budgets:
      # from torch 2.15 on a product has its workspace while it runs, which would make it the peak
      - {name: bf16, environment: &none {CUBLAS_WORKSPACE_CONFIG: ":0:0"}}
      - {name: autocast, precision: {policy: autocast, parameters: fp32, compute: bf16}, environment: *none}
      - {name: sgd, optimizer: sgd}
      - {name: in-backward, optimizer: {in_backward: true}}
      - {name: fsdp, gpus: 2, precision: {policy: fsdp, parameters: fp32, compute: bf16, reduce: fp32}}
      - {name: zero1, gpus: 2, data_parallel: zero1}
      - {name: tensor, gpus: 4, tensor_parallel_degree: 4, sequence_parallel: true}
      - {name: stages, gpus: 2, pipeline_parallel_degree: 2, accumulation: 4}
      - name: checkpoints
        sequence: 2048
        grid: {checkpointing: [none, selective, full]}
      - {name: host, sequence: 2048, offload: activations}
      - name: cache
        generate: {prompt: 64, new_tokens: 36, cache: static}
        grid: {generate.new_tokens: [36, 136]}
      - {name: distilled, teacher: {config: {model_type: llama, hidden_size: 128, intermediate_size: 128,
          num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 1024}}}
"""
#: By what has to be installed.
LIBRARIES = {
    ("transformers",): """
      - {name: transformers, implementation: transformers}
      - {name: dynamic, implementation: transformers, generate: {prompt: 64, new_tokens: 136}}
      - {name: static, implementation: transformers, generate: {prompt: 64, new_tokens: 136, cache: static}}
""",
    ("transformers", "peft"): """
      - {name: lora, implementation: transformers, method: {kind: lora, rank: 8, targets: [q_proj, v_proj]}}
""",
    ("transformers", "peft", "bitsandbytes"): """
      - name: qlora
        implementation: transformers
        method: {kind: qlora, rank: 8, targets: [q_proj, v_proj]}
        grid: {method.base: [nf4, nf4-double]}
""",
    ("torchtitan",): """
      - name: experts
        implementation: torchtitan
        model: {torchtitan: deepseek_v3/debugmodel}
        gpus: 16
        expert_parallel_degree: 4
        precision: {parameters: fp32, compute: bf16}
      - name: sharded-stages
        implementation: torchtitan
        model: {torchtitan: llama3/debugmodel}
        sequence: 512
        gpus: 4
        data_parallel_shard_degree: 2
        pipeline_parallel_degree: 2
        accumulation: 2
        precision: {parameters: fp32, compute: bf16}
""",
}


def _of_what_is_installed():
    return (text for names, text in LIBRARIES.items() if all(map(importlib.util.find_spec, names)))


@pytest.fixture(scope="module")
def rows(session_of):
    run = session_of({"a.membudget.yaml": FILE + "".join(_of_what_is_installed())}, "--membudget")
    assert set(run.outcomes.values()) == {"passed"}, run.out
    return run.rows


@pytest.fixture
def parts(rows):
    """``parts(name)``: the components of the first rank, in bytes."""

    def of(name):
        if name not in rows:
            pytest.skip("its libraries are not installed")
        return rows[name]["estimates"][0]["components"]

    return of


@pytest.mark.parametrize(
    ("name", "parameters", "states"),
    [
        ("bf16", 2 * PARAMETERS, 4 * PARAMETERS),  # AdamW's two moments
        ("autocast", 4 * PARAMETERS, 8 * PARAMETERS),
        ("sgd", 2 * PARAMETERS, 0),
        ("fsdp", 4 * PARAMETERS / 2, 8 * PARAMETERS / 2),
        ("tensor", 2 * (MATRICES / 4 + NORMS), 4 * (MATRICES / 4 + NORMS)),
        ("distilled", 2 * PARAMETERS, 4 * PARAMETERS),
        ("transformers", 2 * PARAMETERS, 4 * PARAMETERS),
        ("lora", 4 * ADAPTERS, 8 * ADAPTERS),  # peft makes them fp32
    ],
)
def test_parameters_and_states(parts, name, parameters, states):
    assert parts(name)["parameters"] == parameters
    assert parts(name)["optimizer_states"] == states


def test_each_stage_has_its_layers_and_its_end(rows):
    layers = 2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 256 * 512 + 2 * 256)
    first, last = (one["components"] for one in rows["stages"]["estimates"])

    assert first["parameters"] == 2 * (1024 * 256 + layers)
    assert last["parameters"] == 2 * (layers + 256 + 1024 * 256)


def test_a_step_in_backward_frees_each_gradient(parts):
    assert parts("bf16")["gradients"] == 2 * PARAMETERS
    assert parts("in-backward")["gradients"] <= 2 * 2 * 1024 * 256  # two of the largest


def test_zero_1_shares_out_the_states(parts):
    assert parts("zero1")["parameters"] == 2 * PARAMETERS
    assert 4 * PARAMETERS / 2 <= parts("zero1")["optimizer_states"] < 0.6 * 4 * PARAMETERS


def test_the_base_of_adapters_is_frozen(parts):
    assert parts("lora")["frozen_parameters"] == 2 * PARAMETERS


@pytest.mark.parametrize(
    ("base", "scales"),
    [
        ("nf4", lambda weights: 4 * weights / 64),
        # each in 8 bits, and blocks of 256 of them in fp32; the table of the 8 bits, and their mean
        ("nf4-double", lambda weights: weights / 64 + 4 * weights / 64 / 256 + 4 * 256 + 4),
    ],
)
def test_a_base_of_4_bits(parts, base, scales):
    """bitsandbytes 0.50.2 (functional.py, ``quantize_4bit``): blocks of 64, and the 16 values a matrix."""
    matrices = 4 * (2 * [256 * 256] + 2 * [128 * 256] + 3 * [256 * 512])
    stored = sum(weights / 2 + scales(weights) + 4 * 16 for weights in matrices)

    assert parts(f"qlora[base={base}]")["frozen_parameters"] == stored + 2 * (2 * 1024 * 256 + NORMS)
    assert parts(f"qlora[base={base}]")["optimizer_states"] == 8 * ADAPTERS


def test_experts_are_shared_out(parts):
    """torchtitan 0.2.2's debugmodel: 6 layers of 256, 16 heads, latent attention; 5 with 8 experts of 256."""
    attention = 256 * 16 * 192 + 256 * (512 + 64) + 512 + 512 * 16 * 256 + 16 * 128 * 256 + 2 * 256
    experts = 3 * 8 * 256 * 256 + 3 * 256 * 512 + 16 * 256  # a row of the router on half of the ranks
    whole = 2 * 2048 * 256 + 6 * attention + 3 * 256 * 1024 + 5 * experts + 256
    tensors = 3 + 6 * 7 + 3 + 5 * 7  # each with a count of its steps

    assert parts("experts")["parameters"] == 4 * whole / 16
    assert parts("experts")["optimizer_states"] == 8 * whole / 16 + 4 * tensors


def test_what_torchtitan_reads_makes_no_further_run(parts, rows):
    assert parts("experts")
    for rank in rows["experts"]["estimates"]:
        assert rank["variants"] == []
        assert {one["cause"] for one in rank["caveats"]} == {"given", "tool", "method"}


def test_the_last_stage_gets_its_shapes_from_the_first_rank_though_another_is_before_it(parts, rows):
    """torchtitan 0.2.2's debugmodel: 6 layers of 256, hidden layers of 768; rank 1 is not run."""
    assert parts("sharded-stages")
    found = {one["rank"]: one["components"]["parameters"] for one in rows["sharded-stages"]["estimates"]}
    whole = 2 * 2048 * 256 + 6 * (4 * 256 * 256 + 3 * 256 * 768 + 2 * 256) + 256

    assert list(found) == [0, 2, 3]
    assert found[0] + found[3] == 4 * whole / 2


def test_a_teacher_is_frozen(parts):
    layer = 4 * 128 * 128 + 3 * 128 * 128 + 2 * 128
    assert parts("distilled")["frozen_parameters"] == 2 * (2 * 1024 * 128 + layer + 128)


def test_checkpoints_keep_less(parts):
    modes = ("none", "selective", "full")
    kept = [parts(f"checkpoints[checkpointing={mode}]")["activations"] for mode in modes]

    assert kept[0] > kept[1] > kept[2]
    assert parts("host")["activations"] < kept[0]


def test_a_dynamic_cache_is_grown_layer_by_layer(parts):
    """At the last of the tokens that are put in: keys and values, and the last layer's values without it."""
    tokens, keys_bytes = 64 + 136 - 1, 4 * 32 * 2
    assert parts("dynamic")["activations"] == keys_bytes * (4 * 2 * tokens + tokens - 1)


def test_transformers_static_cache_has_room_for_every_token(parts):
    """And the number of tokens that each layer has."""
    assert parts("static")["activations"] == 4 * 2 * (64 + 136) * 4 * 32 * 2 + 4 * 8


def test_a_static_cache_is_whole_from_the_start(rows):
    """Keys and values of 4 layers: 4 heads of 32 numbers of 2 bytes a token."""
    peaks = [
        row["estimates"][0]["peak"]["allocated"] for name, row in rows.items() if name.startswith("cache[")
    ]

    assert peaks[1] - peaks[0] == 100 * 4 * 2 * 4 * 32 * 2
