"""What the allocator holds under FSDP2, by formula, against torchtitan's own runs of Llama 3 8B.

8,192 tokens a sequence, eager, per-operator checkpointing, fp32 shards computed in bf16, AdamW, H100:

- benchmarks/llama3_h100_202412_torchtitan.md (9dec370): 2 sequences a GPU;
- the logs in the message of 5940ddeb5 (#822, 2025-02-05): 1 sequence, three ways of resharding.

A trace meets all five to 0.3% (tests/virtual/cluster/test_cluster_published.py). The formulas have each
stream's highest and the place that the logits leave; not what is lost between segments of a tensor each,
which the first two runs had, nor that torchtitan's final norm saved its input in fp32 until 2025-03.
"""

import json
from pathlib import Path

import pytest

from pytest_membudget.analytic.estimate import estimate
from pytest_membudget.analytic.inputs.hugging_face import read_config
from pytest_membudget.analytic.job import (
    Checkpointing,
    DataParallel,
    Degrees,
    Job,
    Optimizer,
    Precision,
)
from pytest_membudget.analytic.tape import Operator, Tape, Tensor
from pytest_membudget.analytic.tape_places import stranded_bytes

CONFIG = Path(__file__).parents[2] / "examples" / "configs" / "llama-3-8b.json"
GIB = 2**30
DEFAULT = DataParallel(keeps_last_layer=True)


def reserved_gib(gpus, batch, data_parallel):
    job = Job(
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
    )
    [figure] = estimate(job)
    return figure.reserved_bytes / GIB


@pytest.mark.parametrize(
    ("gpus", "batch", "data_parallel", "published_gib", "bound"),
    [
        (8, 2, DEFAULT, 82.4, 0.05),
        (128, 2, DEFAULT, 67.0, 0.05),
        (8, 1, DEFAULT, 49.59, 0.015),
        (8, 1, DataParallel(), 49.41, 0.015),
        (8, 1, DataParallel(reshards_after_forward=False), 62.18, 0.015),
    ],
)
def test_torchtitan_s_reserved_memory(gpus, batch, data_parallel, published_gib, bound):
    found = reserved_gib(gpus, batch, data_parallel)

    print(f"\n{gpus} GPUs, {batch} sequences: {found:.2f} of {published_gib} GiB")
    assert found == pytest.approx(published_gib, rel=bound)


def test_nothing_fits_where_the_logits_were():
    """Logits of 4, their copy of 8, log-softmax of 8, two gradients of 8: the second finds a place of 4.

    Alive are 24 at most; the first gradient lies where the copy was, the second at the pool's end.
    """
    cast = Operator("cast", ("logits",), (Tensor("wide", 8),))
    softmax = Operator("log_softmax", ("wide",), (Tensor("chances", 8),), saves=("chances",))
    loss = Operator("nll_loss", ("chances",), (Tensor("loss", 0),), saves=("chances",))
    head = Operator("mm", ("x",), (Tensor("logits", 4),), saves=("x",))
    tape = Tape((Tensor("x", 1),), (head, cast, softmax, loss), ("loss",))

    assert stranded_bytes(tape) == 4


def test_nothing_is_stranded_where_all_are_alike():
    operators = [
        Operator(f"mul {n}", (f"x{n}",), (Tensor(f"x{n + 1}", 8),), saves=(f"x{n}",)) for n in range(3)
    ]
    tape = Tape((Tensor("x0", 8),), tuple(operators), ("x3",))

    assert stranded_bytes(tape) == 0


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
            # a trace has 0.2%: the rest is in segments of 20 MiB, which tensors of 8 MiB do not fill
            {
                "precision": Precision("autocast", "fp32", "fp16"),
                "optimizer": Optimizer("adafactor", library="transformers"),
                "checkpointing": Checkpointing("full"),
            },
            0,
            4847,
            0.06,
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
