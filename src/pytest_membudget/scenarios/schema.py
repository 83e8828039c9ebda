"""What a scenario can say: every field with its type, default and meaning.

The checks, the JSON Schema that editors read (``membudget.schema.json``) and the tables of
``docs/scenarios.md`` are made of it.
"""

from __future__ import annotations

from typing import Final, get_args

from ..analytic.job import (
    Adapter,
    AttentionKernel,
    Checkpointing,
    DataParallel,
    Degrees,
    Generation,
    Implementation,
    Loss,
    Offload,
    Optimizer,
    Precision,
)
from ..components import COMPONENTS, METRICS
from ..user_files.fields import (
    Anything,
    Choice,
    Field,
    Flag,
    Kind,
    ListOf,
    Number,
    Numbers,
    Table,
    Text,
    TextOrAnything,
    Whole,
)
from .words import NUMBER_TYPES, OPTIMIZERS, words_of

_GIB: Final = Number(example=40, unit="GiB")
_SIZES: Final = Numbers(COMPONENTS, _GIB)


def _choice(description: type, name: str) -> Choice:
    return Choice(words_of(description, name))


_MODEL_SOURCES: Final = (
    Field(
        "config",
        TextOrAnything("configs/llama-3-8b.json"),
        "A Hugging Face `config.json`: its path (or its folder's) from this file, or its content.",
        also_called=("config_json", "path", "hf"),
    ),
    Field(
        "megatron",
        Anything(),
        "Megatron-LM's arguments as a table, as `{num-layers: 32, hidden-size: 4096, ...}`. Those of training "
        "and of parallelism count too, where the scenario has no field of its own for them.",
    ),
    Field(
        "torchtitan",
        TextOrAnything("8B"),
        "A flavor of torchtitan's Llama 3, as `8B`, or its arguments as a table.",
    ),
    Field(
        "shape",
        Anything(),
        "The shape itself, as `{hidden: 4096, layers: 32, heads: 32, kv_heads: 8, intermediate: 14336, "
        "vocab: 128256}`.",
    ),
)
_SOURCES: Final = tuple(source.name for source in _MODEL_SOURCES)

MODEL: Final = Table(_MODEL_SOURCES, main="config", one_of=_SOURCES, is_whole=True)
TEACHER: Final = Table(
    (
        *_MODEL_SOURCES,
        Field("type", Choice(NUMBER_TYPES), "Number type of its parameters.", "the compute type"),
    ),
    main="config",
    one_of=_SOURCES,
    is_whole=True,
)

METHOD: Final = Table(
    (
        Field(
            "kind",
            Choice(("full", "lora", "qlora", "dora")),
            "`full`: every parameter is trained. `lora`, `dora`: adapters on a frozen base. `qlora`: LoRA on a "
            "quantised base.",
            required=True,
            also_called=("name",),
        ),
        Field("rank", Whole(example=16), "Rank of the adapters (`r`).", also_called=("r", "lora_rank")),
        Field(
            "targets",
            ListOf(Text("q_proj")),
            "Ends of the adapted linears' names, as `[q_proj, v_proj]`, or `all-linear`: all but the head.",
            also_called=("target_modules",),
        ),
        Field(
            "base",
            _choice(Adapter, "base"),
            "How the frozen linears are stored; `nf4-double` has its scales quantised too.",
            "`nf4` with qlora, else the model's number type",
            also_called=("quantization", "quant_type"),
        ),
        Field("type", Choice(NUMBER_TYPES), "Number type of the adapters.", "fp32, to which peft casts them"),
        Field(
            "casts_rest",
            Flag(),
            "peft's `prepare_model_for_kbit_training`: what is not quantised becomes fp32.",
            "false",
        ),
        Field(
            "dropout",
            Number(example=0.05, is_included=True, below=1),
            "On the adapters' input.",
            "0",
            also_called=("lora_dropout",),
        ),
    ),
    main="kind",
)

OPTIMIZER: Final = Table(
    (
        Field(
            "name",
            Choice(OPTIMIZERS),
            "The algorithm. Muon is for the matrices of hidden layers alone; the rest has AdamW beside it.",
            "adamw",
        ),
        Field(
            "implementation",
            _choice(Optimizer, "implementation"),
            "`foreach` takes a parameter-sized list of temporaries, `fused` none, `loop` one parameter's.",
            "the optimizer's own default on CUDA: for most `foreach`",
        ),
        Field("library", _choice(Optimizer, "library"), "Whose code it is.", "torch"),
        Field("bits", _choice(Optimizer, "bits"), "Of an element of its states.", "the parameters' type"),
        Field("is_paged", Flag(), "States in unified memory, which can leave the card.", "false"),
        Field("amsgrad", Flag(), "Keeps the largest second moment too.", "false"),
        Field("momentum", Flag(), "Of SGD and RMSprop.", "false"),
        Field("nesterov", Flag(), "Of SGD and Muon.", "the optimizer's own: Muon's is true, SGD's false"),
        Field("centered", Flag(), "Of RMSprop.", "false"),
        Field("has_first_moment", Flag(), "Adafactor with `beta1`.", "false"),
        Field(
            "keeps_master",
            Flag(),
            "A copy of the parameters in fp32.",
            "false",
            also_called=("master_weights",),
        ),
        Field(
            "has_l2",
            Flag(),
            "Weight decay by way of the gradients (of SGD, Adam and others), which takes temporaries.",
            "false",
        ),
        Field("is_fp8", Flag(), "torchao's AdamWFp8.", "false"),
        Field(
            "in_32_bits",
            ListOf(Text("embedding")),
            "Whose states bitsandbytes keeps in 32 bits: ends of names, or places as `embedding`.",
        ),
        Field(
            "in_backward",
            Flag(),
            "Each parameter is updated, and its gradient freed, as soon as it is there.",
            "false",
        ),
        Field("clips_gradients", Flag(), "`clip_grad_norm_` before the step.", "false"),
    ),
    main="name",
)

PRECISION: Final = Table(
    (
        Field(
            "policy",
            _choice(Precision, "policy"),
            "`pure`: all in the parameters' type. `autocast`: with its cache of cast weights. `fsdp`: FSDP2's "
            "MixedPrecisionPolicy. `megatron`: fp32 gradient buffers and master copies.",
            "pure",
        ),
        Field("parameters", Choice(NUMBER_TYPES), "Of the parameters.", "bf16"),
        Field("compute", Choice(NUMBER_TYPES), "What products run in.", "as `parameters`"),
        Field("reduce", Choice(NUMBER_TYPES), "What gradients are reduced in.", "as `compute`"),
        Field("gradients", Choice(NUMBER_TYPES), "Of gradients that are kept.", "as `parameters`"),
    ),
    main="parameters",
)

CHECKPOINTING: Final = Table(
    (
        Field(
            "mode",
            _choice(Checkpointing, "mode"),
            "`full`: whole layers are recomputed. `selective`: attention's core (Megatron), or every `every`-th "
            "layer (torchtitan). `per_operator`: all but the costly operators' results (torchtitan's `op`).",
            "none",
        ),
        Field("every", Whole(example=2), "Every how many layers one is checkpointed.", "1"),
        Field("layers", Whole(example=1), "Megatron's `recompute-num-layers`."),
        Field("is_by_block", Flag(), "Megatron's `block` method: the first `layers` of each stage.", "false"),
        Field("modules", ListOf(Text("core_attn")), "Of Megatron's selective mode.", "core_attn"),
    ),
    main="mode",
)

LOSS: Final = Table(
    (
        Field(
            "kind",
            _choice(Loss, "kind"),
            "`full`: all logits at once. `chunked`: in `chunks` pieces. `fused`: a kernel that never has all of "
            "them (Liger, cut cross entropy).",
            "full",
        ),
        Field("chunks", Whole(example=8), "Of a chunked loss.", "8 with `chunked`, as torchtune's"),
        Field("upcasts", Flag(), "Logits are made fp32 first (Hugging Face, torchtitan).", "true"),
        Field("holds_logits", Flag(), "A variable holds the logits through backward and step.", "false"),
    ),
    main="kind",
)

DATA_PARALLEL: Final = Table(
    (
        Field(
            "kind",
            _choice(DataParallel, "kind"),
            "What the data-parallel ranks share out; `zero1`, `zero2`, `zero3` with DeepSpeed's meaning.",
            "fsdp2",
        ),
        Field(
            "reshards_after_forward",
            Flag(),
            "Gathered parameters are freed between forward and backward.",
            "true",
            also_called=("reshard_after_forward", "fsdp_reshard_after_forward"),
        ),
        Field(
            "wraps_ends",
            Flag(),
            "Embedding, and final norm with head, are groups of their own, as in torchtitan; else they are in "
            "the root, whole from the start of forward to the end of backward.",
            "false; true with the implementation torchtitan",
        ),
        Field(
            "bucket_mib",
            Number(example=25, unit="MiB"),
            "DDP's `bucket_cap_mb`.",
            "25",
            also_called=("bucket_cap_mb",),
        ),
        Field("gradient_as_bucket_view", Flag(), "As DDP has it.", "false"),
    ),
    main="kind",
)

GENERATE: Final = Table(
    (
        Field("prompt", Whole(example=2048), "Tokens of the prompt.", required=True),
        Field(
            "new_tokens",
            Whole(example=256),
            "Tokens generated after it.",
            required=True,
            also_called=("max_new_tokens",),
        ),
        Field(
            "cache",
            _choice(Generation, "cache"),
            "The KV cache: grown by concatenation, allocated whole, in blocks, or none.",
            "dynamic",
        ),
        Field("cache_type", Choice(NUMBER_TYPES), "Its number type.", "the compute type"),
        Field("block_tokens", Whole(example=16), "Tokens of a block of a paged cache.", "16"),
    )
)


def _degree(name: str, doc: str, *others: str, kind: Kind | None = None, default: str = "1") -> Field:
    return Field(name, kind or Whole(example=8), doc, default, also_called=others)


#: Fields by what they are about, in the order of the docs.
GROUPS: Final[dict[str, tuple[Field, ...]]] = {
    "The budget": (
        Field("name", Text("llama3-8b"), "What the test is called; each name once a file.", required=True),
        Field("gib", _GIB, "The budget a GPU, in GiB (2**30 bytes).", also_called=("gb", "memory", "budget")),
        Field(
            "gpu",
            Text("H100-80GB"),
            "A card of the catalogue; without `gib` the budget is what it can hold.",
            "`[tool.membudget] gpu`",
            also_called=("card", "device"),
        ),
        Field(
            "gpus",
            Whole(example=8),
            "How many GPUs there are: the product of the degrees.",
            "that product",
            also_called=("world_size", "num_gpus", "n_gpus"),
        ),
        Field("metric", Choice(METRICS), "Which total is held to the budget.", "allocated"),
        Field("components", _SIZES, "Budgets of single components, in GiB a GPU."),
        Field("host_gib", _GIB, "The budget of a machine's host memory, for offload."),
        Field("reason", Text("the teacher alone takes 15 GiB"), "Why the budget is what it is."),
    ),
    "The model": (
        Field("model", MODEL, "The model: exactly one of its fields.", required=True),
        Field("teacher", TEACHER, "A frozen model that is distilled from: as `model`, and its `type`."),
        Field(
            "implementation",
            Choice(get_args(Implementation)),
            "Whose code runs the model: it decides what a layer keeps for backward.",
            "megatron and torchtitan for a model from there, else transformers",
        ),
        Field(
            "megatron",
            Anything(),
            "With the implementation megatron and a model from elsewhere: Megatron-LM's other arguments, as "
            "`{decoder-first-pipeline-num-layers: 3, use-distributed-optimizer: true}`.",
            "`{bf16: true, use-distributed-optimizer: true}`",
        ),
        Field(
            "attention",
            Choice(get_args(AttentionKernel)),
            "The attention kernel.",
            "flash",
            also_called=("attn_implementation",),
        ),
    ),
    "The step": (
        Field("method", METHOD, "What is trained.", "full"),
        Field("optimizer", OPTIMIZER, "How parameters are updated.", "adamw; megatron: its fused Adam with master copies"),
        Field(
            "precision",
            PRECISION,
            "Number types.",
            "bf16; torchtitan: fp32 parameters, computed in bf16; megatron: bf16 with fp32 gradients and copies",
        ),
        Field(
            "checkpointing",
            CHECKPOINTING,
            "What is recomputed in backward.",
            "none",
            also_called=("activation_checkpoint", "activation_checkpointing", "gradient_checkpointing", "recompute"),
        ),
        Field(
            "micro_batch",
            Whole(example=1),
            "Sequences a data-parallel rank and micro-batch.",
            "1",
            also_called=("batch_size", "batch", "micro_batch_size", "local_batch_size", "per_device_train_batch_size"),
        ),
        Field(
            "sequence",
            Whole(example=4096),
            "Tokens of one sequence, before context parallelism splits it.",
            "2048",
            also_called=("seq_len", "seq_length", "sequence_length", "max_seq_len", "context"),
        ),
        Field("source_sequence", Whole(example=512), "Tokens of an encoder's input.", "as `sequence`"),
        Field(
            "accumulation",
            Whole(example=8),
            "Micro-batches a step; with pipeline stages those of the schedule.",
            "1",
            also_called=("gradient_accumulation_steps", "grad_accum", "microbatches"),
        ),
        Field("loss", LOSS, "The head's logits and the loss.", "full"),
        Field(
            "offload",
            ListOf(Choice(get_args(Offload))),
            "What lies in the host's memory.",
            also_called=("cpu_offload",),
        ),
        Field("zeroes_to_none", Flag(), "`zero_grad(set_to_none=True)`.", "true, as torch has it"),
        Field(
            "generate",
            GENERATE,
            "Inference in training's place: a prompt, then tokens one by one.",
            also_called=("generation", "inference"),
        ),
    ),
    "The GPUs": (
        _degree("data_parallel_replicate_degree", "Copies of the sharded model (HSDP), or DDP's ranks.", "dp_replicate"),
        _degree(
            "data_parallel_shard_degree",
            "Ranks that share out a model; -1: the GPUs that the other degrees leave.",
            "dp",
            "dp_shard",
            "fsdp",
            "data_parallel_degree",
            kind=Whole(example=8, also=(-1,)),
            default="-1 where `gpus` is written (with DDP, for the replicas), else 1",
        ),
        _degree(
            "tensor_parallel_degree", "Ranks that split each layer.", "tp", "tensor_model_parallel_size", "tensor_parallel"
        ),
        _degree("context_parallel_degree", "Ranks that split each sequence.", "cp", "context_parallel_size"),
        _degree(
            "pipeline_parallel_degree", "Ranks that split the layers.", "pp", "pipeline_model_parallel_size", "stages"
        ),
        _degree(
            "expert_parallel_degree",
            "Of the data and context parallel ranks, how many share out the experts: no factor of `gpus`.",
            "ep",
            "expert_model_parallel_size",
        ),
        _degree(
            "expert_tensor_parallel_degree",
            "Ranks that split each expert.",
            "etp",
            "expert_tensor_parallel_size",
            default="`tensor_parallel_degree`",
        ),
        Field("sequence_parallel", Flag(), "Norms and dropouts work on their part of a sequence.", "false"),
        Field(
            "pipeline_parallel_schedule",
            _choice(Degrees, "pipeline_parallel_schedule"),
            "The order of micro-batches.",
            "1F1B",
        ),
        Field("virtual_stages", Whole(example=2), "Model chunks a rank, with the interleaved schedule.", "1"),
        Field(
            "data_parallel",
            DATA_PARALLEL,
            "What data-parallel ranks share out.",
            "fsdp2; `megatron_distributed` or `megatron` with the implementation megatron",
        ),
    ),
}

_ALL: Final = tuple(one for group in GROUPS.values() for one in group)

GRID: Final = Field(
    "grid",
    Anything(),
    "A test for each combination: lists of values by field, as `micro_batch: [1, 2, 4]`, "
    "`optimizer.implementation: [foreach, fused]`; several that go together: `micro_batch, gib: [[1, 40], [2, 60]]`.",
)
#: Where a grid's tests are made.
NOT_IN_A_GRID: Final = ("name", "grid")

SCENARIO: Final = Table(_ALL)
"""One test: a budget whose grid is worked out."""
BUDGET: Final = Table((*_ALL, GRID))
"""One entry of ``budgets:``."""
