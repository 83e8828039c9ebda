"""Hugging Face's libraries as their users call them (``clients/``): their figures against hand arithmetic.

One run of the gate over these files; skipped where the libraries are not installed
(clients/requirements-hf.txt; ``tox -e clients-hf``).
"""

import pytest

from tests.report_fixtures import caveat_texts

NEEDED = ("accelerate", "datasets", "peft", "transformers", "triton", "trl")

# the small Llama of all four files
WIDTH, INNER, LAYERS, KEYS, VOCABULARY, BATCH, SEQUENCE = 512, 1536, 4, 256, 8192, 4, 256
LAYER = 2 * WIDTH**2 + 2 * WIDTH * KEYS + 3 * WIDTH * INNER + 2 * WIDTH
EMBEDDING = VOCABULARY * WIDTH
MODEL = 2 * EMBEDDING + LAYERS * LAYER + WIDTH
#: of one layer 4 + 3 matrices and 2 norms; two embeddings and a norm
TENSORS = 9 * LAYERS + 3
#: rank of the adapters, and (in, out) of the linears of a layer: q, k, v, o, gate, up, down
RANK = 16
LINEARS = [
    (WIDTH, WIDTH), (WIDTH, KEYS), (WIDTH, KEYS), (WIDTH, WIDTH),
    (WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH),
]  # fmt: skip
LORA_QV = LAYERS * RANK * ((WIDTH + WIDTH) + (WIDTH + KEYS))
LORA_ALL = LAYERS * RANK * sum(inputs + outputs for inputs, outputs in LINEARS)
MAGNITUDES = LAYERS * sum(outputs for _, outputs in LINEARS)
BLOCK = 512
#: Autocast's bf16 copies of the layers' linears, which backward needs, and of the head. Where all is frozen,
#: q's, k's and v's of the first layer are not kept: their input has no gradient.
COPIES = 2 * LAYERS * sum(inputs * outputs for inputs, outputs in LINEARS)
HEAD_COPY = 2 * EMBEDDING
NOT_KEPT = sum(inputs * outputs for inputs, outputs in LINEARS[:3])
LORA_COPIES = 2 * LORA_ALL - 2 * 3 * RANK * WIDTH
#: DoRA's copies of frozen weights are fp32 (peft 0.21.2, lora/dora.py: ``weight.to(x.dtype)``).
DORA_COPIES = 2 * COPIES - 4 * NOT_KEPT
#: IA3 multiplies by a copy of each vector (ia3/layer.py), which backward needs where the other has a gradient
IA3_COPIES = 4 * (LAYERS * INNER + (LAYERS - 1) * 2 * KEYS)


class Figures:
    """report.json's estimates by the tests' names."""

    def __init__(self, rows):
        self.rows = {row["nodeid"].split("::")[-1]: row for row in rows}

    def __getitem__(self, name):
        """The components of the test's only rank, or of rank 0."""
        return self.rows[name]["estimates"][0]["components"]

    def peak(self, name):
        return self.rows[name]["estimates"][0]["peak"]["allocated"]

    def host(self, name):
        return self.rows[name]["estimates"][0]["host"]["components"]

    def holders(self, name, text):
        """What the lines with ``text`` in their place hold at the peak."""
        found = self.rows[name]["estimates"][0]["holders"]
        return [holder["bytes"] for holder in found if text in (holder["location"] or "")]

    def assumptions(self, name):
        return caveat_texts(self.rows[name]["estimates"][0])


@pytest.fixture(scope="module")
def figures(rows_of):
    return Figures(rows_of("trainer", "accelerate", "peft", "trl"))


def test_every_test_has_a_figure_within_its_budget(figures):
    assert len(figures.rows) >= 39
    assert {row["verdict"] for row in figures.rows.values()} == {"within"}


def test_a_trainer_takes_the_models_states(figures):
    """fp32 weights, AdamW's two states, and fused: a step for each tensor on the device."""
    taken = figures["test_full_fine_tuning"]

    assert taken["parameters"] == 4 * MODEL + COPIES + HEAD_COPY
    assert taken["optimizer_states"] == 2 * 4 * MODEL + 4 * TENSORS


def test_a_trainers_step_is_the_plain_loop_and_its_scalars(figures):
    """Besides, the Trainer holds 5 numbers on the device: sums of losses, the batch's count of tokens."""
    theirs, plain = figures["test_full_fine_tuning"], figures["test_the_same_by_hand"]
    differ = {name: theirs[name] - plain[name] for name in theirs if theirs[name] != plain[name]}

    assert figures.peak("test_full_fine_tuning") - figures.peak("test_the_same_by_hand") == 5 * BLOCK
    assert sum(differ.values()) == 5 * BLOCK
    assert sum(differ.values()) - differ["rounding"] == 5 * 4


def test_a_resumed_training_takes_what_it_took(figures):
    assert figures.peak("test_evaluated_saved_and_resumed") == figures.peak("test_full_fine_tuning")


def test_a_compiled_trainer_saves_activations_alone(figures):
    compiled, eager = figures["test_compiled"], figures["test_full_fine_tuning"]

    for name in ("parameters", "optimizer_states", "workspaces"):
        assert compiled[name] == eager[name]
    assert compiled["activations"] < eager["activations"]
    assert figures.assumptions("test_compiled") == []


def test_a_trainers_own_metrics_take_nothing(figures):
    assert figures.peak("test_memory_metrics") == figures.peak("test_full_fine_tuning")


def test_a_trainer_on_two_gpus_replicates(figures):
    """DDP's buckets are as large as the gradients; a map of used parameters has 4 bytes each."""
    taken = figures["test_two_gpus"]

    assert taken["parameters"] == 4 * MODEL + COPIES + HEAD_COPY
    assert taken["optimizer_states"] == 2 * 4 * MODEL + 4 * TENSORS
    assert taken["collectives"] == 4 * MODEL + 4 * TENSORS


def test_fsdp2_shards_by_two(figures):
    taken = figures["test_fsdp2_on_two_gpus"]

    assert taken["parameters"] == 4 * MODEL // 2
    assert taken["optimizer_states"] == 2 * 4 * MODEL // 2


def test_accumulated_gradients_are_held(figures):
    for name in ("test_accumulation_checkpointing_and_loader_workers", "test_accumulation"):
        assert figures[name]["gradients"] == 4 * MODEL


def test_checkpointing_keeps_a_layers_input_and_the_last_layers_loss(figures):
    """Layers' inputs in fp32, as many as layers and the last one's output; the loss's log softmax."""
    taken = figures["test_accumulation_checkpointing_and_loader_workers"]["activations"]
    plain = figures["test_full_fine_tuning"]["activations"]
    tokens = BATCH * SEQUENCE

    assert taken >= LAYERS * 4 * tokens * WIDTH + 4 * tokens * VOCABULARY
    assert taken < plain - LAYERS * 5 * 2 * tokens * INNER  # not even the gated parts' results


@pytest.mark.parametrize(
    ("optim", "states"),
    [
        ("adamw_torch", 2 * 2 * MODEL),
        ("adamw_torch_fused", 2 * 2 * MODEL + 4 * TENSORS),
        # fp32 row and column of each matrix, a vector in full, and a root mean square
        (
            "adafactor",
            4 * (2 * (VOCABULARY + WIDTH) + LAYERS * (sum(map(sum, LINEARS)) + 2 * WIDTH) + WIDTH + TENSORS),
        ),
        ("sgd", 0),
    ],
)
def test_optimizers_of_a_model_in_bf16(figures, optim, states):
    taken = figures[f"test_a_model_in_bf16[{optim}]"]

    assert taken["parameters"] == 2 * MODEL
    assert taken.get("optimizer_states", 0) == states


def test_a_grad_scaler_is_a_few_numbers(figures):
    """Its scale and growth tracker, and the scaled loss."""
    more = figures.peak("test_fp16_with_a_grad_scaler") - figures.peak("test_full_fine_tuning")

    assert more == 3 * BLOCK


def test_a_classifier_of_bert(figures):
    width, inner = 256, 1024
    embeddings = (30522 + 512 + 2) * width + 2 * width
    layer = 4 * (width**2 + width) + 2 * width * inner + inner + width + 4 * width
    count = embeddings + 2 * layer + width**2 + width + 2 * width + 2
    taken = figures["test_classification_with_metrics"]

    assert taken["parameters"] == taken["gradients"] == 4 * count
    assert 0 < taken["optimizer_states"] - 2 * 4 * count < 1000  # steps


@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_accelerates_loop_takes_the_models_states(figures, precision):
    taken = figures[f"test_a_training_loop[{precision}]"]

    assert taken["parameters"] == 4 * MODEL + (COPIES + HEAD_COPY if precision != "no" else 0)
    assert taken["optimizer_states"] == 2 * 4 * MODEL
    assert taken["inputs"] - 2 * BATCH * SEQUENCE * 8 in (0, 8)  # a GradScaler's two numbers


def test_loaded_states_are_the_optimizers(figures):
    taken = figures["test_states_saved_and_loaded"]

    assert taken["optimizer_states"] == 2 * 4 * MODEL
    assert taken["inputs"] == 2 * BATCH * SEQUENCE * 8


def test_evaluation_holds_no_gradients(figures):
    taken = figures["test_evaluation_gathers_what_was_predicted"]

    assert taken["parameters"] == 4 * MODEL
    assert taken.get("gradients", 0) == taken.get("optimizer_states", 0) == 0


def test_layers_on_the_host_are_on_the_host(figures):
    name = "test_big_model_inference_with_layers_on_the_host"

    assert figures[name]["parameters"] == 4 * (2 * EMBEDDING + 2 * LAYER + WIDTH)
    assert sum(figures.host(name).values()) >= 2 * 4 * LAYER


@pytest.mark.parametrize(
    ("name", "adapter_bytes"),
    [
        ("test_lora_of_attention", 4 * LORA_QV),
        ("test_lora_of_all_linear_layers", 4 * LORA_ALL),
        ("test_dora", 4 * (LORA_ALL + MAGNITUDES)),
        ("test_lora_with_a_head_of_its_own_and_checkpointing", 4 * LORA_QV + 2 * EMBEDDING),
        ("test_an_adapter_saved_loaded_and_merged", 4 * LORA_QV),
        # keys, values and the inner width of a layer
        ("test_other_adapters[ia3]", 4 * LAYERS * (2 * KEYS + INNER)),
        # rank 64 and the outputs, of q and o
        ("test_other_adapters[vera]", 4 * LAYERS * 2 * (64 + WIDTH)),
        ("test_other_adapters[prefix]", 4 * 16 * LAYERS * 2 * KEYS),
        ("test_other_adapters[prompt]", 4 * 16 * WIDTH),
    ],
)
def test_an_adapter_is_trained_and_its_base_is_frozen(figures, name, adapter_bytes):
    taken = figures[name]

    assert taken["frozen_parameters"] == 2 * MODEL + (DORA_COPIES if name == "test_dora" else 0)
    assert taken["parameters"] == adapter_bytes + (IA3_COPIES if "ia3" in name else 0)
    assert taken["optimizer_states"] == 2 * adapter_bytes


def test_veras_shared_matrices_are_buffers(figures):
    plain = figures["test_lora_of_attention"]["buffers"]

    assert figures["test_other_adapters[vera]"]["buffers"] - plain == 4 * 64 * (WIDTH + WIDTH)


#: trl's loss is reckoned in parts of so many columns of the logits, by default; its buffer is as wide.
CHUNK = 32768


@pytest.mark.parametrize("name", ["test_sft[full]", "test_sft_packed"])
def test_supervised_fine_tuning(figures, name):
    """The loss's gradient for the head is gathered in fp32 while the tile of logits is there, in bf16."""
    taken = figures[name]

    assert taken["parameters"] == 4 * MODEL + COPIES
    assert taken["optimizer_states"] == 2 * 4 * MODEL + 4 * TENSORS
    assert taken["gradients"] == 4 * EMBEDDING
    assert 2 * BATCH * (SEQUENCE - 1) * CHUNK in figures.holders(name, "chunked_logprob.py")


def test_supervised_fine_tuning_of_an_adapter(figures):
    """Two adapter tensors a linear, each with a step on the device."""
    taken = figures["test_sft[lora]"]

    assert taken["frozen_parameters"] == 4 * MODEL + COPIES - 2 * NOT_KEPT
    assert taken["parameters"] == 4 * LORA_ALL + LORA_COPIES
    assert taken["optimizer_states"] == 2 * 4 * LORA_ALL + 4 * 2 * len(LINEARS) * LAYERS


#: chosen and rejected, of 180 words and an end each
PREFERRED = 2 * BATCH * 181


def test_direct_preference_optimization_holds_a_frozen_reference(figures):
    name = "test_dpo[full]"
    taken = figures[name]

    assert taken["parameters"] - COPIES == taken["frozen_parameters"] == 4 * MODEL
    assert taken["optimizer_states"] == 2 * 4 * MODEL + 4 * TENSORS
    assert 2 * PREFERRED * CHUNK in figures.holders(name, "chunked_logprob.py")


def test_an_adapters_reference_is_its_own_base(figures):
    name = "test_dpo[lora]"
    taken = figures[name]

    assert taken["frozen_parameters"] == 4 * MODEL + COPIES - 2 * NOT_KEPT
    assert taken["parameters"] == 4 * LORA_ALL + LORA_COPIES
    assert 2 * PREFERRED * CHUNK in figures.holders(name, "chunked_logprob.py")


def test_a_reference_that_was_asked_before_is_gone(figures):
    taken = figures["test_dpo_with_reference_log_probabilities_made_before"]

    assert taken["parameters"] == 4 * MODEL + COPIES
    assert taken.get("frozen_parameters", 0) == 0


def test_a_reward_model_has_a_score_for_a_head(figures):
    taken = figures["test_reward"]

    assert taken["parameters"] == 4 * (MODEL - EMBEDDING + WIDTH) + COPIES


def test_what_generation_depends_on_is_reported(figures):
    taken = figures["test_grpo"]

    assert taken["parameters"] == 4 * MODEL + COPIES
    assert any("the worst case" in text for text in figures.assumptions("test_grpo"))


@pytest.mark.parametrize("name", ["test_full_fine_tuning", "test_sft[full]"])
def test_losses_that_are_logged_decide_nothing(figures, name):
    """Runs with other values in their place take the same, so nothing is taken for granted."""
    (estimate,) = figures.rows[name]["estimates"]

    assert {*estimate["variants"]} == {figures.peak(name)}
    assert figures.assumptions(name) == []
