"""A job: what a scenario says of a model, its step and its layout, as plain values with one JSON form.

Recipes and the arithmetic of ``formulas`` read it; what one of them does not read is an error where it is
written (``recipes/known.py``). Names of parallel degrees are torchtitan's (``ParallelDims``).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..json_object import JsonObject

Implementation = Literal["transformers", "torchtitan", "megatron", "plain", "formulas"]
Attention = Literal["sdpa", "eager", "flash", "efficient", "cudnn", "math"]
Offload = Literal["parameters", "activations"]
Source = Literal["config", "torchtitan", "megatron", "shape"]


@dataclass(frozen=True, slots=True)
class Model(JsonObject):
    """Where a model comes from, with the content that says its shape."""

    source: Source
    name: str
    """For messages: of the configuration's file without its suffix, the flavor, or the source itself."""
    written: str
    """JSON of the content: a ``config.json``, Megatron-LM's arguments by their names without dashes, a flavor
    (a text) or arguments of torchtitan's, or a shape."""

    @property
    def values(self) -> Any:
        """The content of ``written``."""
        return json.loads(self.written)


@dataclass(frozen=True, slots=True)
class Precision(JsonObject):
    """Number types, and who converts between them."""

    policy: Literal["pure", "autocast", "fsdp"] = "pure"
    """``pure``: all in the parameters' type. ``autocast``: products in ``compute``. ``fsdp``: FSDP2's
    MixedPrecisionPolicy, computed in ``compute``, gradients reduced in ``reduce``."""
    parameters: str = "bf16"
    compute: str | None = None
    """None: as ``parameters``."""
    reduce: str | None = None
    """None: as ``compute``."""

    @property
    def compute_type(self) -> str:
        """What products run in."""
        return self.compute or self.parameters


@dataclass(frozen=True, slots=True)
class Optimizer(JsonObject):
    """How parameters are updated."""

    name: str = "adamw"
    implementation: Literal["foreach", "fused", "loop"] | None = None
    """None: the optimizer's own default on CUDA."""
    library: Literal["torch", "transformers", "bitsandbytes", "torchao"] = "torch"
    bits: Literal[32, 8, 4] | None = None
    """Of an element of its states; None: as the parameters (torch), or the library's default."""
    is_paged: bool = False
    momentum: bool = False
    keeps_master: bool = False
    """A copy of the parameters in fp32, as mixed-precision Adam of ZeRO's paper has it."""
    in_backward: bool = False
    """Each parameter is updated, and its gradient freed, as soon as it is there."""
    clips_gradients: bool = False


@dataclass(frozen=True, slots=True)
class Adapter(JsonObject):
    """Low-rank adapters on a frozen base."""

    kind: Literal["lora", "qlora", "dora"]
    rank: int
    targets: tuple[str, ...]
    """Ends of the adapted modules' names: ``q_proj``; ``all-linear``: every linear layer but the head."""
    base: Literal["nf4", "nf4-double"] | None = None
    """The frozen linears' quantised storage; None: the model's own type."""
    casts_rest: bool = False
    """peft's ``prepare_model_for_kbit_training``: what is not quantised becomes fp32."""
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpointing(JsonObject):
    """What is recomputed in backward."""

    mode: Literal["none", "full", "selective", "per_operator"] = "none"
    """``full``: whole layers. ``selective``: every ``every``-th layer (in Megatron-LM attention's core).
    ``per_operator``: all but the results of the costly operators (torchtitan's ``op``)."""
    every: int = 2
    """With ``selective``: every how many layers one is checkpointed."""


@dataclass(frozen=True, slots=True)
class Loss(JsonObject):
    """The head's logits and the loss."""

    kind: Literal["full", "chunked"] = "full"
    """``full``: all logits at once. ``chunked``: the sequence in ``chunks`` pieces, one at a time."""
    chunks: int = 8
    """As torchtune's ``num_output_chunks`` (v0.6.1)."""


#: Degrees whose product is the number of GPUs.
FACTORS: Final = (
    *("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree"),
    *("context_parallel_degree", "pipeline_parallel_degree"),
)


@dataclass(frozen=True, slots=True)
class Degrees(JsonObject):
    """Over how many GPUs each dimension goes; their product is the number of GPUs."""

    data_parallel_replicate_degree: int = 1
    data_parallel_shard_degree: int = 1
    tensor_parallel_degree: int = 1
    context_parallel_degree: int = 1
    pipeline_parallel_degree: int = 1
    expert_parallel_degree: int = 1
    """How many of a stage's ranks share the experts: it does not multiply the number of GPUs."""
    sequence_parallel: bool = False
    """Norms and dropouts work on their part of the sequence."""
    pipeline_parallel_schedule: Literal["1F1B", "Interleaved1F1B", "GPipe"] = "1F1B"
    virtual_stages: int = 1
    """Model chunks a rank, with the interleaved schedule."""

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return math.prod(getattr(self, name) for name in FACTORS)


@dataclass(frozen=True, slots=True)
class DataParallel(JsonObject):
    """What data-parallel ranks share out among them."""

    kind: Literal["ddp", "zero1", "zero2", "zero3", "fsdp2"] = "fsdp2"
    """``zero1`` is torch's ``ZeroRedundancyOptimizer`` over DDP; ``zero2`` and ``zero3`` as ZeRO's paper."""
    reshards_after_forward: bool = True


@dataclass(frozen=True, slots=True)
class Generation(JsonObject):
    """Inference: a prompt, then tokens one by one."""

    prompt: int
    new_tokens: int
    cache: Literal["dynamic", "static"] = "dynamic"
    """``dynamic``: grown by concatenation; ``static``: allocated whole."""


@dataclass(frozen=True, slots=True)
class Job(JsonObject):
    """One step of training, or one generation, on all its GPUs."""

    model: Model
    implementation: Implementation
    attention: Attention = "sdpa"
    """``sdpa``: torch's choice for the card; ``flash`` and the next ones: a backend of it; ``eager``:
    products and a softmax."""
    micro_batch: int = 1
    """Sequences a data-parallel rank and micro-batch."""
    sequence: int = 2048
    """Tokens of one, before context parallelism splits it."""
    accumulation: int = 1
    """Micro-batches a step; with pipeline stages those in the schedule."""
    precision: Precision = field(default_factory=Precision)
    optimizer: Optimizer = field(default_factory=Optimizer)
    adapter: Adapter | None = None
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    loss: Loss = field(default_factory=Loss)
    degrees: Degrees = field(default_factory=Degrees)
    data_parallel: DataParallel = field(default_factory=DataParallel)
    offload: tuple[Offload, ...] = ()
    """What lies in the host's memory; with parameters their gradients and optimizer states do too."""
    compiled: bool = False
    """Each layer is given to ``torch.compile``."""
    teacher: Model | None = None
    """A frozen model that is distilled from."""
    teacher_type: str | None = None
    """Of the teacher's parameters; None: the compute type."""
    generation: Generation | None = None
    """Inference in training's place."""
