"""FSDP2 over 8 ranks: allocated, by scenario, against the same steps on ranks of the stand-in.

In Llama's usual proportions the peak is in the head's backward, where the last layer is gathered already
(``_backward_prefetch``, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py); with few words it is among
the layers.
"""

import json

import pytest
import traced_bodies as bodies
from traced_cases import requested
from traced_models import MODELS

from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.implementations.losses import cross_entropy
from pytest_membudget.formulas.implementations.operators import cast
from pytest_membudget.formulas.implementations.recorder import Recorder
from pytest_membudget.formulas.implementations.setting import Setting
from pytest_membudget.formulas.tape import backward
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.scenarios.grid import points_of
from pytest_membudget.scenarios.jobs import read_scenario
from pytest_membudget.scenarios.reading import read_entries

_SIZES = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "use_cache": False,
}
LLAMA_3_8B = MODELS["llama"] | {"config": _SIZES, "layers": "model.layers", "rows": 1, "length": 8192}
MIXED = {"mixed": True, "dtype": "float32"}
MIXED_PRECISION = "{policy: fsdp, parameters: fp32, compute: bf16, reduce: fp32}"
STEPS = {
    "pure": ({}, "bf16"),
    "pure, checkpointed": ({"checkpointing": True}, "bf16"),
    "mixed": (MIXED, MIXED_PRECISION),
    "mixed, checkpointed": (MIXED | {"checkpointing": True}, MIXED_PRECISION),
}


def scenario_of(order, precision, folder):
    """The job that a scenario file makes of the same configuration."""
    config = order["config"] | {"model_type": order["model_type"], "architectures": [order["model_class"]]}
    file = folder / "sharded.membudget.yaml"
    file.write_text(
        f"""
        budgets:
          - name: sharded
            gpu: A100-80GB
            gpus: 8
            model: {{config: {json.dumps(config)}}}
            micro_batch: {order.get("rows", 2)}
            sequence: {order.get("length", 512)}
            precision: {precision}
            optimizer: {{name: adamw, implementation: foreach}}
            checkpointing: {"full" if order.get("checkpointing") else "none"}
        """
    )
    [entry] = read_entries(file, file.name)
    [point] = points_of(entry)
    return read_scenario(point, folder, {}).job


@pytest.fixture(autouse=True)
def _needs_transformers():
    pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore")
def test_the_loss_of_sharded_logits_is_as_traced(trace):
    """Beside 16-bit logits four copies in fp32: log-softmax, zeros, exponentials and their sum."""
    tokens, words = 4096, 32000
    sizes, gpu = {"b": 1, "s": tokens}, find_gpu("A100-80GB")
    setting = Setting(sizes, "bf16", None, "flash", gpu, tensor_parallel=2)
    r = Recorder(setting, V=words // 2)
    wide = cast(r, "fp32", r.input("logits", "b s V", "bf16"), "fp32")
    tape = r.tape(cross_entropy(r, "loss", wide))

    traced = requested(trace(bodies.sharded_loss, tokens, words, world_size=2))

    copy = tokens * words // 2 * 4
    assert backward(tape, "kept").peak_bytes + copy // 2 == pytest.approx(4.5 * copy, rel=0.001)
    assert traced == pytest.approx(4.5 * copy, rel=0.001)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", [128256, 512])
@pytest.mark.parametrize("name", STEPS)
def test_sharded_steps_are_allocated_as_traced(trace, tmp_path, name, words):
    """Four layers of Llama 3 8B: of tensors this large the allocator leaves a thousandth unsplit at most."""
    changes, precision = STEPS[name]
    order = LLAMA_3_8B | changes | {"config": LLAMA_3_8B["config"] | {"vocab_size": words}}

    traced = trace(bodies.sharded_training, order, world_size=8).report.peak_bytes
    [figure] = estimate(scenario_of(order, precision, tmp_path))

    print(f"\n{name}, {words}: {figure.allocated_bytes:,} of {traced:,}, {figure.peak.name}")
    assert figure.allocated_bytes == pytest.approx(traced, rel=0.001)
