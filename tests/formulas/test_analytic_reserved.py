"""What the allocator holds, replayed: torchtitan's own runs of Llama 3 8B, BERT-large in nvidia-smi.

8,192 tokens a sequence, eager, per-operator checkpointing, fp32 shards computed in bf16, AdamW, H100:

- benchmarks/llama3_h100_202412_torchtitan.md (9dec370): 2 sequences a GPU, the allocator's default segments;
- the logs in the message of 5940ddeb5 (#822, 2025-02-05): 1 sequence, three ways of resharding, from
  run_llama_train.sh, which sets expandable segments.

A trace meets all five to 0.3% (tests/devices/stand_in/ranks/test_published_ranks.py). The tapes have
torchtitan's final norm as it is since 2025-03; until then it saved its input in fp32.
"""

import json
from pathlib import Path

import pytest

from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.figures import RankFigure, report_of
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.job import (
    Adapter,
    Checkpointing,
    DataParallel,
    Degrees,
    Generation,
    Job,
    Loss,
    Optimizer,
    Precision,
)
from pytest_membudget.formulas.moments import Moment
from pytest_membudget.formulas.term_sums import TermSum
from pytest_membudget.formulas.terms import Term

CONFIG = Path(__file__).parents[2] / "examples" / "configs" / "llama-3-8b.json"
GIB = 2**30
DEFAULT = DataParallel(keeps_last_layer=True)


def job_of(gpus, batch, data_parallel, **more):
    return Job(
        read_config(json.loads(CONFIG.read_text())),
        implementation="torchtitan",
        micro_batch=batch,
        sequence=8192,
        precision=Precision("fsdp", parameters="fp32", compute="bf16", reduce="fp32"),
        optimizer=Optimizer(implementation="foreach", clips_gradients=True),
        checkpointing=Checkpointing("per_operator"),
        degrees=Degrees(data_parallel_shard_degree=gpus),
        data_parallel=data_parallel,
        gpu="H100-80GB",
        **more,
    )


@pytest.mark.parametrize(
    ("gpus", "batch", "data_parallel", "is_expandable", "published_gib"),
    [
        (8, 2, DEFAULT, False, 82.4),
        (128, 2, DEFAULT, False, 67.0),
        (8, 1, DEFAULT, True, 49.59),
        (8, 1, DataParallel(), True, 49.41),
        (8, 1, DataParallel(reshards_after_forward=False), True, 62.18),
    ],
)
def test_torchtitan_s_reserved_memory(gpus, batch, data_parallel, is_expandable, published_gib):
    [figure] = estimate(job_of(gpus, batch, data_parallel, expandable_segments=is_expandable))
    found = figure.reserved_bytes / GIB

    print(f"\n{gpus} GPUs, {batch} sequences: {found:.2f} of {published_gib} GiB")
    assert found == pytest.approx(published_gib, rel=0.005)


LLAMA = read_config({"model_type": "llama", "num_hidden_layers": 4})
HALVES = Degrees(data_parallel_shard_degree=2)
#: One of each kind that a replay has a branch for.
KINDS = {
    "plain": Job(LLAMA),
    "accumulated": Job(LLAMA, accumulation=4),
    "in backward": Job(LLAMA, optimizer=Optimizer(in_backward=True)),
    "gradients that stay": Job(LLAMA, zeroes_to_none=False),
    "LoRA on NF4": Job(LLAMA, adapter=Adapter(8, ("q_proj",), base="nf4")),
    "logits held": Job(LLAMA, loss=Loss(holds_logits=True)),
    "chunked": Job(LLAMA, loss=Loss("chunked", 8)),
    "compiled": Job(LLAMA, compiled=frozenset({"layers", "loss"})),
    "encoder and decoder": Job(read_config({"model_type": "t5"}), sequence=256),
    "DDP": Job(LLAMA, data_parallel=DataParallel("ddp"), degrees=Degrees(data_parallel_replicate_degree=2)),
    "FSDP2, root": Job(LLAMA, degrees=HALVES),
    "FSDP2, accumulated": Job(LLAMA, degrees=HALVES, accumulation=2),
    "FSDP2, ends": Job(LLAMA, degrees=HALVES, data_parallel=DataParallel(wraps_ends=True)),
    "stages": Job(
        LLAMA,
        degrees=Degrees(pipeline_parallel_degree=2, data_parallel_replicate_degree=2),
        data_parallel=DataParallel("ddp"),
        accumulation=4,
    ),
    "a tied table": Job(read_config({"model_type": "gemma", "num_hidden_layers": 4}), accumulation=2),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_reserved_is_no_less_than_what_is_allocated(name):
    """And no more than the half beyond it, in a step that nothing is wrong with."""
    for figure in estimate(KINDS[name]):
        assert figure.allocated_bytes <= figure.reserved_bytes <= 1.5 * figure.allocated_bytes
        assert report_of(figure, "reserved").peak.reserved_bytes == figure.reserved_bytes


@pytest.mark.parametrize("kind", ["generate", "zero2", "offload"])
def test_what_is_not_replayed_has_the_formula(kind):
    changed = {
        "generate": {"task": "generate", "generation": Generation(8)},
        "zero2": {"data_parallel": DataParallel("zero2"), "degrees": HALVES},
        "offload": {"offload": frozenset({"optimizer_states"})},
    }[kind]
    [figure] = estimate(Job(LLAMA, **changed))

    assert figure.reserved_bytes == figure.least_reserved_bytes
    assert "by formula" in report_of(figure, "reserved").assumptions[1]


def test_nothing_is_replayed_for_what_is_allocated():
    """It takes longer than all the rest."""
    asked = []
    moments = (Moment("step", (TermSum([Term("parameters", "w", 3 * 2**20)]),)),)
    figure = RankFigure(0, 1, moments, replay=lambda: asked.append(True) or 8 * 2**20)

    assert report_of(figure).peak.reserved_bytes == 4 * 2**20
    assert not asked
    assert report_of(figure, "device").peak.reserved_bytes == 8 * 2**20


#: nvidia-smi's two rows of BERT-large on a V100: docs v4.18 of huggingface/transformers, performance
#: (docs/source/en/model_memory_anatomy.md), Trainer of 4.15, torch 1.10, 512 tokens, 4 micro-batches of one.
BERT_LARGE = {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
#: After one number was on the card; 2 MiB of it are the segment that the number lay in.
CONTEXT_MIB = 1343 - 2
#: Softmax of torch 1.10 also saved its input (pytorch/pytorch#64000, mended in 1.11 by #65242): 24 layers of
#: 16 heads x 512 x 512 numbers in fp32. With checkpoints they are not kept.
SOFTMAX_INPUTS_MIB = 24 * 16


@pytest.mark.parametrize(
    ("settings", "kept_mib", "published_mib", "bound"),
    [
        (
            {"precision": Precision("pure", "fp32"), "optimizer": Optimizer(implementation="loop")},
            SOFTMAX_INPUTS_MIB,
            8681,
            0.02,
        ),
        (
            # a trace has 0.1%
            {
                "precision": Precision("autocast", "fp32", "fp16"),
                "optimizer": Optimizer("adafactor", library="transformers"),
                "checkpointing": Checkpointing("full"),
            },
            0,
            4847,
            0.005,
        ),
    ],
    ids=["fp32", "fp16, checkpointed, Adafactor"],
)
def test_bert_large_as_nvidia_smi_shows_it(settings, kept_mib, published_mib, bound):
    job = Job(
        read_config(BERT_LARGE),
        sequence=512,
        accumulation=4,
        attention="math",
        zeroes_to_none=False,
        gpu="V100-16GB",
        **settings,
    )
    [figure] = estimate(job)

    assert figure.reserved_bytes / 2**20 + kept_mib + CONTEXT_MIB == pytest.approx(published_mib, rel=bound)
