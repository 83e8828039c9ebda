"""Fields of entries: the name and the grid that each may have, and those of a scenario that are tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args, get_origin, get_type_hints

from ..user_input.fields import Field, Table
from ..user_input.kinds import FLAG, TABLE, choice, list_of, number, text, text_or_table, whole
from ..user_input.nodes import Kind
from .job import Adapter, Checkpointing, DataParallel, Generation, Loss, Optimizer, Precision

#: Number types by the name that scenario files use.
NUMBER_TYPES: Final = ("fp32", "bf16", "fp16")
#: Algorithms of all libraries; ``recipes/known.py`` says which library has which.
OPTIMIZERS: Final = (
    *("adamw", "adam", "nadam", "radam", "adamax", "adadelta", "adagrad", "asgd", "rmsprop", "rprop", "sgd"),
    *("adafactor", "lion"),
)

NAME: Final = Field(
    "name", text("llama3-8b"), "What the test is called; each name once a file.", required=True
)
GRID: Final = Field(
    "grid",
    TABLE,
    "A test for each combination: lists of values by field, as `micro_batch: [1, 2, 4]`, "
    "`optimizer.implementation: [foreach, fused]`; several that go together: "
    "`micro_batch, gib: [[1, 40], [2, 60]]`.",
)


@dataclass(frozen=True, slots=True)
class FieldsOf:
    """Makes fields of a scenario file of the fields of ``description``, a dataclass, by their types."""

    description: type
    example: int = 1

    def __call__(
        self, name: str, doc: str, default: str | None = None, *, kind: Kind | None = None, example: int = 0
    ) -> Field:
        """The field ``name``: without ``default`` the dataclass's, without ``kind`` that of its type."""
        if default is None:
            own = self.description.__dataclass_fields__[name].default  # type: ignore[attr-defined]
            default = str(own).lower() if isinstance(own, bool) else str(own)
        return Field(name, kind or self._kind(name, example or self.example), doc, default)

    def _kind(self, name: str, example: int) -> Kind:
        """The kind of the field ``name`` by its type, without None; a text is a number type."""
        hint = get_type_hints(self.description)[name]
        if type(None) in get_args(hint):
            [hint] = [part for part in get_args(hint) if part is not type(None)]
        if get_origin(hint) is Literal:
            return choice(get_args(hint))
        if get_origin(hint) is tuple:
            return list_of(choice(get_args(get_args(hint)[0])))
        if hint is int:
            return whole(example=example)
        if hint is bool:
            return FLAG
        assert hint is str, f"{self.description.__name__}.{name}: write its kind"
        return choice(NUMBER_TYPES)


_MODEL_SOURCES: Final = (
    Field(
        "config",
        text_or_table("configs/llama-3-8b.json"),
        "A Hugging Face `config.json`: its (or its folder's) path from this file, or its content.",
    ),
    Field(
        "megatron",
        TABLE,
        "Megatron-LM's arguments as a table, as `{num-layers: 32, hidden-size: 4096, ...}`.",
    ),
    Field(
        "torchtitan",
        text("8B"),
        "A flavor of torchtitan's Llama 3, as `8B`, or of another of its models, as `deepseek_v3/671B`.",
    ),
    Field(
        "shape",
        TABLE,
        "The shape of a Llama, as `{hidden: 4096, layers: 32, heads: 32, kv_heads: 8, intermediate: 14336, "
        "vocab: 128256}`, and `tied: true`.",
    ),
)

MODEL: Final = Table(
    _MODEL_SOURCES,
    main="config",
    one_of=tuple(source.name for source in _MODEL_SOURCES),
    is_whole=True,
    also_called={"config": "config_json path hf"},
)
_OF_TEACHER: Final = Field("type", choice(NUMBER_TYPES), "Number type of its parameters.", "the compute type")
TEACHER: Final = replace(MODEL, fields=(*_MODEL_SOURCES, _OF_TEACHER))

_adapter = FieldsOf(Adapter)
METHOD: Final = Table(
    (
        Field(
            "kind",
            choice(("full", "lora", "qlora", "dora")),
            "`full`: every parameter. `lora`, `dora`: adapters on a frozen base; `qlora`: a quantised one.",
            required=True,
        ),
        _adapter("rank", "Rank of the adapters (`r`).", "", example=16),
        _adapter(
            "targets",
            "Ends of the adapted linears' names, as `[q_proj, v_proj]`, or `all-linear`: all but the head.",
            "",
            kind=list_of(text("q_proj")),
        ),
        _adapter(
            "base",
            "How frozen linears are stored; `nf4-double` has its scales quantised too.",
            "`nf4` with qlora, else the model's number type",
        ),
        _adapter(
            "casts_rest", "peft's `prepare_model_for_kbit_training`: what is not quantised becomes fp32."
        ),
        _adapter("dropout", "On the adapters' input.", "0", kind=number(0.05, is_included=True, below=1)),
    ),
    main="kind",
    also_called={
        "kind": "name",
        "rank": "r lora_rank",
        "targets": "target_modules",
        "base": "quantization quant_type",
        "dropout": "lora_dropout",
    },
)

_optimizer = FieldsOf(Optimizer)
OPTIMIZER: Final = Table(
    (
        _optimizer("name", "The algorithm.", kind=choice(OPTIMIZERS)),
        _optimizer(
            "implementation",
            "`foreach` takes a parameter-sized list of temporaries, `fused` none, `loop` one parameter's.",
            "the optimizer's own default on CUDA: for most `foreach`",
        ),
        _optimizer("library", "Whose code it is."),
        _optimizer("bits", "Of an element of its states.", "the parameters' type"),
        _optimizer("is_paged", "bitsandbytes' paged states, in unified memory."),
        _optimizer("momentum", "Of SGD and RMSprop."),
        _optimizer("keeps_master", "A copy of the parameters in fp32."),
        _optimizer(
            "in_backward", "Each parameter is updated, and its gradient freed, as soon as it is there."
        ),
        _optimizer("clips_gradients", "`clip_grad_norm_` before the step."),
    ),
    main="name",
    also_called={"keeps_master": "master_weights"},
)

_precision = FieldsOf(Precision)
PRECISION: Final = Table(
    (
        _precision(
            "policy",
            "`pure`: the parameters' type. `autocast`: products in `compute`. `fsdp`: MixedPrecisionPolicy.",
        ),
        _precision("parameters", "Of the parameters."),
        _precision("compute", "What products run in.", "as `parameters`"),
        _precision("reduce", "What gradients are reduced in.", "as `compute`"),
    ),
    main="parameters",
)

_checkpointing = FieldsOf(Checkpointing)
CHECKPOINTING: Final = Table(
    (
        _checkpointing(
            "mode",
            "`full`: whole layers. `selective`: every `every`-th layer. `per_operator`: all but the costly "
            "operators' results (torchtitan's `op`).",
        ),
        _checkpointing("every", "For `selective`.", example=2),
    ),
    main="mode",
)

_loss = FieldsOf(Loss)
LOSS: Final = Table(
    (
        _loss("kind", "`full`: all logits at once. `chunked`: in `chunks` pieces, one at a time."),
        _loss("chunks", "Of a chunked loss.", example=8),
    ),
    main="kind",
)

_data_parallel = FieldsOf(DataParallel)
DATA_PARALLEL: Final = Table(
    (
        _data_parallel(
            "kind",
            "`zero1`: torch's ZeroRedundancyOptimizer over DDP; `zero2`, `zero3`: ZeRO's paper, by formulas.",
        ),
        _data_parallel(
            "reshards_after_forward", "Gathered parameters are freed between forward and backward."
        ),
    ),
    main="kind",
    also_called={"reshards_after_forward": "reshard_after_forward fsdp_reshard_after_forward"},
)

_generation = FieldsOf(Generation)
GENERATE: Final = Table(
    (
        Field("prompt", whole(example=2048), "Tokens of the prompt.", required=True),
        Field("new_tokens", whole(example=256), "Tokens generated after it.", required=True),
        _generation("cache", "The KV cache: grown by concatenation, or allocated whole."),
    ),
    also_called={"new_tokens": "max_new_tokens"},
)
