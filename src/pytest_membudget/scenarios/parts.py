"""What the tables of a scenario can say: those fields that have fields of their own."""

from __future__ import annotations

from typing import Final

from ..formulas.job import Adapter, Checkpointing, DataParallel, Generation, Loss, Optimizer, Precision
from ..user_input.fields import Field, Table
from ..user_input.kinds import FLAG, TABLE, Choice, ListOf, number, text, text_or_table, whole
from .choices import NUMBER_TYPES, OPTIMIZERS, choice

_MODEL_SOURCES: Final = (
    Field(
        "config",
        text_or_table("configs/llama-3-8b.json"),
        "A Hugging Face `config.json`: its path (or its folder's) from this file, or its content.",
        also_called=("config_json", "path", "hf"),
    ),
    Field(
        "megatron",
        TABLE,
        "Megatron-LM's arguments as a table, as `{num-layers: 32, hidden-size: 4096, ...}`. Those of "
        "training and of parallelism count too, where the scenario has no field of its own for them.",
    ),
    Field(
        "torchtitan",
        text_or_table("8B"),
        "A flavor of torchtitan's Llama 3, as `8B`, or its arguments as a table.",
    ),
    Field(
        "shape",
        TABLE,
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
            "`full`: every parameter is trained. `lora`, `dora`: adapters on a frozen base. `qlora`: LoRA on "
            "a quantised base.",
            required=True,
            also_called=("name",),
        ),
        Field("rank", whole(example=16), "Rank of the adapters (`r`).", also_called=("r", "lora_rank")),
        Field(
            "targets",
            ListOf(text("q_proj")),
            "Ends of the adapted linears' names, as `[q_proj, v_proj]`, or `all-linear`: all but the head.",
            also_called=("target_modules",),
        ),
        Field(
            "base",
            choice(Adapter, "base"),
            "How the frozen linears are stored; `nf4-double` has its scales quantised too.",
            "`nf4` with qlora, else the model's number type",
            also_called=("quantization", "quant_type"),
        ),
        Field("type", Choice(NUMBER_TYPES), "Number type of the adapters.", "fp32, to which peft casts them"),
        Field(
            "casts_rest",
            FLAG,
            "peft's `prepare_model_for_kbit_training`: what is not quantised becomes fp32.",
            "false",
        ),
        Field(
            "dropout",
            number(0.05, is_included=True, below=1),
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
            choice(Optimizer, "implementation"),
            "`foreach` takes a parameter-sized list of temporaries, `fused` none, `loop` one parameter's.",
            "the optimizer's own default on CUDA: for most `foreach`",
        ),
        Field("library", choice(Optimizer, "library"), "Whose code it is.", "torch"),
        Field("bits", choice(Optimizer, "bits"), "Of an element of its states.", "the parameters' type"),
        Field("is_paged", FLAG, "States in unified memory, which can leave the card.", "false"),
        Field("amsgrad", FLAG, "Keeps the largest second moment too.", "false"),
        Field("momentum", FLAG, "Of SGD and RMSprop.", "false"),
        Field("nesterov", FLAG, "Of SGD and Muon.", "the optimizer's own: Muon's is true, SGD's false"),
        Field("centered", FLAG, "Of RMSprop.", "false"),
        Field("has_first_moment", FLAG, "Adafactor with `beta1`.", "false"),
        Field(
            "keeps_master",
            FLAG,
            "A copy of the parameters in fp32.",
            "false",
            also_called=("master_weights",),
        ),
        Field(
            "has_l2",
            FLAG,
            "Weight decay by way of the gradients (of SGD, Adam and others), which takes temporaries.",
            "false",
        ),
        Field("is_fp8", FLAG, "torchao's AdamWFp8.", "false"),
        Field(
            "in_32_bits",
            ListOf(text("embedding")),
            "Whose states bitsandbytes keeps in 32 bits: ends of names, or places as `embedding`.",
        ),
        Field(
            "in_backward",
            FLAG,
            "Each parameter is updated, and its gradient freed, as soon as it is there.",
            "false",
        ),
        Field("clips_gradients", FLAG, "`clip_grad_norm_` before the step.", "false"),
    ),
    main="name",
)

PRECISION: Final = Table(
    (
        Field(
            "policy",
            choice(Precision, "policy"),
            "`pure`: all in the parameters' type. `autocast`: with its cache of cast weights. `fsdp`: "
            "FSDP2's MixedPrecisionPolicy. `megatron`: fp32 gradient buffers and master copies.",
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
            choice(Checkpointing, "mode"),
            "`full`: whole layers are recomputed. `selective`: attention's core (Megatron), or every "
            "`every`-th layer (torchtitan). `per_operator`: all but the costly operators' results "
            "(torchtitan's `op`).",
            "none",
        ),
        Field("every", whole(example=2), "Every how many layers one is checkpointed.", "1"),
        Field("layers", whole(example=1), "Megatron's `recompute-num-layers`."),
        Field("is_by_block", FLAG, "Megatron's `block` method: the first `layers` of each stage.", "false"),
        Field("modules", ListOf(text("core_attn")), "Of Megatron's selective mode.", "core_attn"),
    ),
    main="mode",
)

LOSS: Final = Table(
    (
        Field(
            "kind",
            choice(Loss, "kind"),
            "`full`: all logits at once. `chunked`: in `chunks` pieces. `fused`: a kernel that never has all "
            "of them (Liger, cut cross entropy).",
            "full",
        ),
        Field("chunks", whole(example=8), "Of a chunked loss.", "8 with `chunked`, as torchtune's"),
        Field("upcasts", FLAG, "Logits are made fp32 first (Hugging Face, torchtitan).", "true"),
        Field("holds_logits", FLAG, "A variable holds the logits through backward and step.", "false"),
    ),
    main="kind",
)

DATA_PARALLEL: Final = Table(
    (
        Field(
            "kind",
            choice(DataParallel, "kind"),
            "What the data-parallel ranks share out; `zero1`, `zero2`, `zero3` with DeepSpeed's meaning.",
            "fsdp2",
        ),
        Field(
            "reshards_after_forward",
            FLAG,
            "Gathered parameters are freed between forward and backward.",
            "true",
            also_called=("reshard_after_forward", "fsdp_reshard_after_forward"),
        ),
        Field(
            "keeps_last_layer",
            FLAG,
            "The last layer stays whole all the same: backward wants it at once (torchtitan until 2025-07).",
            "false",
        ),
        Field(
            "wraps_ends",
            FLAG,
            "Embedding, and final norm with head, are groups of their own, as in torchtitan; else they are "
            "in the root, whole from the start of forward to the end of backward.",
            "false; true with the implementation torchtitan",
        ),
        Field(
            "bucket_mib",
            number(25, unit="MiB"),
            "DDP's `bucket_cap_mb`.",
            "25",
            also_called=("bucket_cap_mb",),
        ),
        Field("gradient_as_bucket_view", FLAG, "As DDP has it.", "false"),
    ),
    main="kind",
)

GENERATE: Final = Table(
    (
        Field("prompt", whole(example=2048), "Tokens of the prompt.", required=True),
        Field(
            "new_tokens",
            whole(example=256),
            "Tokens generated after it.",
            required=True,
            also_called=("max_new_tokens",),
        ),
        Field(
            "cache",
            choice(Generation, "cache"),
            "The KV cache: grown by concatenation, allocated whole, in blocks, or none.",
            "dynamic",
        ),
        Field("cache_type", Choice(NUMBER_TYPES), "Its number type.", "the compute type"),
        Field("block_tokens", whole(example=16), "Tokens of a block of a paged cache.", "16"),
    )
)
