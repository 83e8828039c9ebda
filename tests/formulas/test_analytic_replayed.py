"""Reserved memory, replayed tensor by tensor, against the same steps on the stand-in.

Two independent orders of allocations: that of the tapes, which go through the model of the allocator, and the
one in which the code itself makes tensors, with PyTorch's own allocator.
"""

import pytest
import traced_bodies as bodies
from traced_cases import job_of
from traced_models import MODELS, with_small_vocabulary

from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.job import Degrees, Precision

MIB = 2**20

#: A family, what its step is like, and how far off the replay may be: one segment is 0.5 to 8% of models as
#: small as these, and a figure is off by one or two where tensors of alike sizes come in another order. From
#: torch 2.12 on the oldest segment's free block is taken (``segment_addresses``), and the order decides more.
STEPS = {
    "llama": ("llama", {}, 0),
    "gpt2, long": ("gpt2", {"rows": 8, "optimizer": {"fused": True}, "fused": True}, 0),
    "gpt_neox": ("gpt_neox", {}, 0.014),
    "mixtral": ("mixtral", {}, 0.005),
    # made on the host and moved: made on the card, a tied head leaves the place that its own weight had
    "falcon": ("falcon", {"moved": True}, 0.005),
    "bert, long": ("bert", {"rows": 8, "small": True}, 0.03),
    "vit": ("vit", {}, 0.023),
    "t5": ("t5", {}, 0.01),
    "gemma2, checkpointed": ("gemma2", {"checkpointing": True, "small": True}, 0.056),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STEPS)
def test_replayed_as_traced(trace, name):
    pytest.importorskip("transformers")
    family, changes, bound = STEPS[name]
    order = with_small_vocabulary(MODELS[family]) if "small" in changes else MODELS[family]
    order = order | changes

    traced = trace(bodies.training, order).report.peak
    [figure] = estimate(job_of(order))

    print(f"\n{name}: {figure.reserved_bytes / MIB:.0f} of {traced.reserved_bytes / MIB:.0f} MiB reserved")
    assert figure.reserved_bytes == pytest.approx(traced.reserved_bytes, rel=bound, abs=0)
    assert figure.reserved_bytes >= figure.allocated_bytes


#: Over 8 ranks, with few logits; and what the job says beside.
SHARDED = {
    "mixed precision": (
        {"mixed": True, "dtype": "float32"},
        {"precision": Precision("fsdp", "fp32", "bf16", "fp32"), "attention": "flash"},
    ),
    "accumulated, checkpointed": ({"accumulation": 2, "checkpointing": True}, {"accumulation": 2}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SHARDED)
def test_sharded_layers_replayed_as_traced(trace, name):
    """Three streams: gathering, computing, reducing."""
    pytest.importorskip("transformers")
    changes, settings = SHARDED[name]
    order = with_small_vocabulary(MODELS["llama"]) | changes | {"layers": "model.layers"}

    traced = trace(bodies.sharded_training, order, world_size=8).report.peak
    [figure] = estimate(job_of(order, degrees=Degrees(data_parallel_shard_degree=8), **settings))

    print(f"\n{name}: {figure.reserved_bytes / MIB:.0f} of {traced.reserved_bytes / MIB:.0f} MiB reserved")
    assert figure.reserved_bytes == traced.reserved_bytes
