"""What jobs share is reckoned once, and no figure depends on what was reckoned before it."""

import functools
import gc
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.figures import report_of
from pytest_membudget.formulas.implementations import kept_tapes, setting
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.job import (
    Adapter,
    Checkpointing,
    DataParallel,
    Degrees,
    Job,
    Optimizer,
    Precision,
)
from pytest_membudget.formulas.pipeline import stages_of
from pytest_membudget.hardware.gpus import find_gpu

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
LLAMA = read_config({"model_type": "llama", "num_hidden_layers": 4})
DEEPSEEK = read_config(json.loads((CONFIGS / "deepseek-v3.json").read_text()))
PIPELINE = Degrees(data_parallel_shard_degree=4, pipeline_parallel_degree=2)
#: Each shares a part with its neighbours, and differs in something that tapes are written from.
JOBS = [
    Job(LLAMA),
    Job(LLAMA, sequence=4096),
    Job(LLAMA, micro_batch=2, sequence=1024),
    Job(LLAMA, attention="math"),
    Job(LLAMA, precision=Precision("autocast", "fp32", "bf16")),
    Job(LLAMA, checkpointing=Checkpointing("full")),
    Job(LLAMA, optimizer=Optimizer("sgd", in_backward=True)),
    Job(LLAMA, optimizer=Optimizer("adamw", implementation="loop", in_backward=True)),
    Job(LLAMA, adapter=Adapter(8, ("q_proj",))),
    Job(LLAMA, adapter=Adapter(8, ("v_proj",))),
    Job(LLAMA, implementation="torchtitan"),
    Job(
        LLAMA,
        implementation="torchtitan",
        degrees=PIPELINE,
        data_parallel=DataParallel("zero1"),
        accumulation=4,
    ),
    Job(LLAMA, gpu="A100-40GB", attention="math"),
    Job(read_config({"model_type": "gemma2", "num_hidden_layers": 4})),
    Job(read_config({"model_type": "gpt_oss", "num_hidden_layers": 4})),
    Job(read_config({"model_type": "t5"}), sequence=256),
    Job(DEEPSEEK, sequence=1024),
]


def forget():
    """Empty all that the analytic engine keeps."""
    for found in gc.get_objects():
        if type(found) is functools._lru_cache_wrapper and "membudget.formulas" in found.__module__:
            found.cache_clear()
    kept_tapes.forget()


def whole(job):
    return [
        (
            [(moment.name, moment.bytes, moment.terms) for moment in figure.moments],
            report_of(figure, "device"),
        )
        for figure in estimate(job)
    ]


def test_figures_are_the_same_whatever_was_computed_before_them():
    alone = []
    for job in JOBS:
        forget()
        alone.append(whole(job))
    forget()

    assert [whole(job) for job in JOBS] == alone
    assert [whole(job) for job in reversed(JOBS)][::-1] == alone


#: Another value of each field of a setting.
OTHER = {
    "values": {"b": 1, "s": 2048, "n": 2048, "h": 4097}, "stored": "fp32", "autocast": "bf16",
    "attention": "math", "gpu": find_gpu("A100-40GB"), "trains": False, "drops": False, "is_causal": False,
    "keys": "T", "cache_kind": "fp32", "is_sequence_parallel": True, "adapter": Adapter(8, ("q_proj",)),
    "adapts": frozenset({"q_proj"}), "compute": "fp32", "tensor_parallel": 2, "shares_table": True,
    "updates": Job(LLAMA),
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in fields(setting.Setting)])
def test_settings_that_differ_in_anything_have_different_keys(name):
    (stage,) = stages_of(Job(LLAMA))
    found = setting.setting_of(stage)

    assert replace(found).key == found.key
    assert replace(found, **{name: OTHER[name]}).key != found.key
