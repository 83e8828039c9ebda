"""A job: what a scenario says of a model, its step and its layout, as plain values with one JSON form.

Recipes and the arithmetic of ``formulas`` read it; what one of them does not read is an error where it is
written (``recipes/known.py``). Names of parallel degrees are torchtitan's (``ParallelDims``).
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..json_object import JsonObject
from ..user_input.fields import described
from ..user_input.kinds import choice, list_of, number, text, whole

Implementation = Literal["transformers", "torchtitan", "megatron", "plain", "formulas"]
Attention = Literal["sdpa", "eager", "flash", "efficient", "cudnn", "math"]
Offload = Literal["parameters", "activations"]
Source = Literal["config", "torchtitan", "megatron", "shape"]
NUMBER_TYPE: Final = choice(("fp32", "bf16", "fp16"))
#: Algorithms of all libraries; ``recipes/known.py`` says which library has which.
OPTIMIZERS: Final = (
    *("adamw", "adam", "nadam", "radam", "adamax", "adadelta", "adagrad", "asgd", "rmsprop", "rprop", "sgd"),
    *("adafactor", "lion"),
)


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

    policy: Literal["pure", "autocast", "fsdp"] = described(
        "`pure`: the parameters' type. `autocast`: products in `compute`. `fsdp`: MixedPrecisionPolicy.",
        "pure",
    )
    parameters: str = described("Of the parameters.", "bf16", kind=NUMBER_TYPE)
    compute: str | None = described("What products run in.", None, "as `parameters`", kind=NUMBER_TYPE)
    reduce: str | None = described("What gradients are reduced in.", None, "as `compute`", kind=NUMBER_TYPE)

    @property
    def compute_type(self) -> str:
        """What products run in."""
        return self.compute or self.parameters


@dataclass(frozen=True, slots=True)
class Optimizer(JsonObject):
    """How parameters are updated."""

    name: str = described("The algorithm.", "adamw", kind=choice(OPTIMIZERS))
    implementation: Literal["foreach", "fused", "loop"] | None = described(
        "`foreach` takes a parameter-sized list of temporaries, `fused` none, `loop` one parameter's.",
        None,
        "the optimizer's own default on CUDA: for most `foreach`",
    )
    library: Literal["torch", "transformers", "bitsandbytes", "torchao"] = described(
        "Whose code it is.", "torch"
    )
    bits: Literal[32, 8, 4] | None = described("Of an element of its states.", None, "the parameters' type")
    is_paged: bool = described("bitsandbytes' paged states, in unified memory.", False)
    momentum: bool = described("Of SGD and RMSprop.", False)
    keeps_master: bool = described("A copy of the parameters in fp32.", False)
    in_backward: bool = described(
        "Each parameter is updated, and its gradient freed, as soon as it is there.", False
    )
    clips_gradients: bool = described("`clip_grad_norm_` before the step.", False)


@dataclass(frozen=True, slots=True)
class Adapter(JsonObject):
    """Low-rank adapters on a frozen base."""

    kind: Literal["lora", "qlora", "dora"]
    rank: int = described("Rank of the adapters (`r`).", shown="", example=16)
    targets: tuple[str, ...] = described(
        "Ends of the adapted linears' names, as `[q_proj, v_proj]`, or `all-linear`: all but the head.",
        shown="",
        kind=list_of(text("q_proj")),
    )
    base: Literal["nf4", "nf4-double"] | None = described(
        "How frozen linears are stored; `nf4-double` has its scales quantised too.",
        None,
        "`nf4` with qlora, else the model's number type",
    )
    casts_rest: bool = described(
        "peft's `prepare_model_for_kbit_training`: what is not quantised becomes fp32.", False
    )
    dropout: float = described(
        "On the adapters' input.", 0.0, "0", kind=number(0.05, is_included=True, below=1)
    )


@dataclass(frozen=True, slots=True)
class Checkpointing(JsonObject):
    """What is recomputed in backward; of Megatron-LM ``selective`` is attention's core."""

    mode: Literal["none", "full", "selective", "per_operator"] = described(
        "`full`: whole layers. `selective`: every `every`-th layer. `per_operator`: all but the costly "
        "operators' results (torchtitan's `op`).",
        "none",
    )
    every: int = described("For `selective`.", 2, example=2)


@dataclass(frozen=True, slots=True)
class Loss(JsonObject):
    """The head's logits and the loss; ``chunks`` as torchtune's ``num_output_chunks`` (v0.6.1)."""

    kind: Literal["full", "chunked"] = described(
        "`full`: all logits at once. `chunked`: in `chunks` pieces, one at a time.", "full"
    )
    chunks: int = described("Of a chunked loss.", 8, example=8)


#: Degrees whose product is the number of GPUs.
FACTORS: Final = (
    *("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree"),
    *("context_parallel_degree", "pipeline_parallel_degree"),
)


@dataclass(frozen=True, slots=True)
class Degrees(JsonObject):
    """Over how many GPUs each dimension goes; their product is the number of GPUs."""

    data_parallel_replicate_degree: int = described("Copies of the sharded model (HSDP), or DDP's ranks.", 1)
    data_parallel_shard_degree: int = described(
        "Ranks that share out a model; -1: the GPUs that the other degrees leave.",
        1,
        "-1 where `gpus` is written (with DDP, for the replicas), else 1",
        kind=whole(example=8, also=(-1,)),
    )
    tensor_parallel_degree: int = described("Ranks that split each layer.", 1)
    context_parallel_degree: int = described("Ranks that split each sequence.", 1)
    pipeline_parallel_degree: int = described("Ranks that split the layers.", 1)
    expert_parallel_degree: int = described(
        "Of a stage's ranks, how many share out the experts: no factor of `gpus`.", 1
    )
    sequence_parallel: bool = described("Norms and dropouts work on their part of a sequence.", False)
    pipeline_parallel_schedule: Literal["1F1B", "Interleaved1F1B", "GPipe"] = described(
        "The order of micro-batches.", "1F1B"
    )
    virtual_stages: int = described("Model chunks a rank, with the interleaved schedule.", 1, example=2)

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return math.prod(getattr(self, name) for name in FACTORS)


@dataclass(frozen=True, slots=True)
class DataParallel(JsonObject):
    """What data-parallel ranks share out among them."""

    kind: Literal["ddp", "zero1", "zero2", "zero3", "fsdp2"] = described(
        "`zero1`: torch's ZeroRedundancyOptimizer over DDP; `zero2`, `zero3`: ZeRO's paper, by formulas.",
        "fsdp2",
    )
    reshards_after_forward: bool = described(
        "Gathered parameters are freed between forward and backward.", True
    )


@dataclass(frozen=True, slots=True)
class Generation(JsonObject):
    """Inference: a prompt, then tokens one by one."""

    prompt: int = described("Tokens of the prompt.", example=2048)
    new_tokens: int = described("Tokens generated after it.", example=256)
    cache: Literal["dynamic", "static"] = described(
        "The KV cache: grown by concatenation, or allocated whole.", "dynamic"
    )


@dataclass(frozen=True, slots=True)
class Job(JsonObject):
    """One step of training, or one generation, on all its GPUs."""

    model: Model
    implementation: Implementation = described(
        "Whose code is run.", shown="the model's: transformers for `config`, plain for `shape`"
    )
    attention: Attention = described(
        "`sdpa`: torch's choice of the last four; `eager`: none of them.", "sdpa"
    )
    micro_batch: int = described("Sequences a data-parallel rank and micro-batch.", 1)
    sequence: int = described(
        "Tokens of one sequence, before context parallelism splits it.", 2048, example=4096
    )
    accumulation: int = described(
        "Micro-batches a step; with pipeline stages those of the schedule.", 1, example=8
    )
    precision: Precision = field(default_factory=Precision)
    optimizer: Optimizer = field(default_factory=Optimizer)
    adapter: Adapter | None = None
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    loss: Loss = field(default_factory=Loss)
    degrees: Degrees = field(default_factory=Degrees)
    data_parallel: DataParallel = field(default_factory=DataParallel)
    offload: tuple[Offload, ...] = described(
        "What lies in the host's memory; parameters with gradients and states.", (), ""
    )
    compiled: bool = described("Each layer is compiled by `torch.compile`.", False)
    teacher: Model | None = None
    """A frozen model that is distilled from."""
    teacher_type: str | None = None
    """Of the teacher's parameters; None: the compute type."""
    generation: Generation | None = None
    """Inference in training's place."""
