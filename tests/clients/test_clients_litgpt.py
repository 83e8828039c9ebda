"""What clients/test_litgpt.py comes to, held to arithmetic by hand."""

import pytest

NEEDED = ("litgpt",)
WIDTH, LAYERS, WORDS, TOKENS = 768, 12, 50304, 4 * 2048
#: 12 layers of 12 parameters, two embeddings, the last norm's two (arXiv:2304.01373, table 1)
TENSORS = 12 * LAYERS + 4
#: a layer: 3 + 1 + 4 + 4 products of the width, their biases, and two norms'
NUMBERS = 2 * WORDS * WIDTH + LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + 2 * WIDTH


@pytest.fixture(scope="module")
def run(rows_of):
    (row,) = rows_of("litgpt")
    assert row["verdict"] == "within", row["reason"]
    return row["estimates"][0]


def test_weights_gradients_and_states_are_bf16(run):
    """Fused AdamW's steps are on the card, a float32 a parameter."""
    assert run["components"]["parameters"] == run["components"]["gradients"] == 2 * NUMBERS
    assert run["components"]["optimizer_states"] == 2 * 2 * NUMBERS + 4 * TENSORS


def test_the_loss_in_chunks_has_two_gradients_of_the_logits_in_float32(run):
    """``chunked_cross_entropy``: those of all chunks, and the whole that they are put together in."""
    assert run["components"]["temporaries"] == 2 * 4 * TOKENS * WORDS


def test_the_model_is_compiled_as_a_whole(run):
    """All that the model's own lines hold is of inductor's kernels, or of products and attention."""
    held = {one["operator"] for one in run["holders"] if "litgpt/model.py" in (one["location"] or "")}
    others = {name for name in held if not name.startswith("triton_")}

    assert others < held
    assert {name.removesuffix(".out") for name in others} <= {
        "aten::addmm", "aten::mm", "aten::_flash_attention_forward",
    }  # fmt: skip
