"""Compiled layers and losses, by rule: against PyTorch's partitioner, and torchtune's published ladder.

pytorch/torchtune at 1814feb, README.md (A100, torch of 2024-11): Llama 3.2 3B in bf16, 2 x 4,096 tokens, peak
active. Its layers repeat shared heads as torchtitan's do.
"""

import json
from pathlib import Path

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.estimate import estimate, peak_bytes
from pytest_membudget.formulas.implementations import blocks_of
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.job import Checkpointing, Job, Loss, Optimizer
from pytest_membudget.formulas.pipeline import stages_of
from pytest_membudget.formulas.tape import Operator, Tape, Tensor, forward
from pytest_membudget.formulas.tape_compiled import compiled

CONFIG = Path(__file__).parents[2] / "examples" / "configs" / "llama-3.2-3b.json"
GIB, MIB = 2**30, 2**20
LAYERS, BOTH = frozenset({"layers"}), frozenset({"layers", "loss"})


def job(**others):
    settings = {"implementation": "torchtitan", "gpu": "A100-80GB", "micro_batch": 2, "sequence": 4096}
    return Job(read_config(json.loads(CONFIG.read_text())), **settings | others)


def test_a_layer_keeps_what_the_partitioner_lists():
    """769 MiB, listed by PyTorch 2.13 for such a layer (benchmarks/published: tune-l32-3b-compile).

    By hand: 8 tensors of 48 MiB (input, results of two norms, queries, keys, values, attention, its
    projection), 3 of 128 (gate, up, their product), log-sum-exp of 0.75, two rows of 8,192 numbers in fp32.
    """
    (stage,) = stages_of(job(compiled=LAYERS))
    block = next(block for block in blocks_of(stage) if block.name == "layers")
    kept = sum(tensor.bytes for tensor in block.tape.saved())

    assert kept == (8 * 48 + 3 * 128 + 0.75 + 2 * 8192 * 4 / MIB) * MIB
    assert round(kept / MIB) == 769


@pytest.mark.parametrize(
    ("settings", "published_gib"),
    [
        ({"compiled": LAYERS}, 51.0),
        ({"compiled": BOTH, "loss": Loss("chunked", 8)}, 42.9),
        (
            {
                "compiled": BOTH,
                "loss": Loss("chunked", 8),
                "checkpointing": Checkpointing("full"),
                "optimizer": Optimizer(implementation="fused"),
            },
            24.9,
        ),
    ],
    ids=["compiled layers", "chunked loss", "checkpoints"],
)
def test_torchtunes_compiled_ladder(settings, published_gib):
    assert peak_bytes(job(**settings)) == pytest.approx(published_gib * GIB, rel=0.005)


def test_a_chain_between_two_products_is_worked_out_again():
    """Eager code saves both results of a chain; compiled, only what a product reads or gives is there."""
    first = Operator("mm 1", ("x",), (Tensor("a", 4),), saves=("x",), gives_views=True)
    middle = Operator("exp", ("a",), (Tensor("b", 8),), saves=("b",))
    last = Operator("sin", ("b",), (Tensor("c", 16),), saves=("b",))
    second = Operator("mm 2", ("c",), (Tensor("d", 32),), saves=("c",), gives_views=True)
    tape = Tape((Tensor("x", 2),), (first, middle, last, second), ("d",))

    assert {tensor.name for tensor in tape.saved()} == {"x", "b", "c"}
    assert {tensor.name for tensor in compiled(tape).saved()} == {"x", "a", "c"}
    assert forward(compiled(tape)).peak_bytes == 2 + 4 + 16 + 32


def test_nothing_changes_where_nothing_is_compiled():
    assert estimate(job())[0].allocated_bytes == estimate(job(compiled=frozenset()))[0].allocated_bytes


def test_unfused_attention_cannot_be_compiled():
    with pytest.raises(UsageMistake, match="write attention flash, efficient or cudnn"):
        estimate(job(compiled=LAYERS, attention="math"))
