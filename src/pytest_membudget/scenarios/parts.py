"""Fields of entries: the name and the grid that each may have, and those of a scenario that are tables."""

from dataclasses import replace
from typing import Final

from ..user_input.fields import Field, Table, fields_of
from ..user_input.kinds import TABLE, choice, text, text_or_table
from .job import (
    NUMBER_TYPE,
    Adapter,
    Checkpointing,
    DataParallel,
    Generation,
    Loss,
    Optimizer,
    Precision,
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
    _MODEL_SOURCES, main="config", one_of=tuple(source.name for source in _MODEL_SOURCES), is_whole=True
)
_OF_TEACHER: Final = Field("type", NUMBER_TYPE, "Number type of its parameters.", "the compute type")
TEACHER: Final = replace(MODEL, fields=(*_MODEL_SOURCES, _OF_TEACHER))

METHOD: Final = Table(
    (
        Field(
            "kind",
            choice(("full", "lora", "qlora", "dora")),
            "`full`: every parameter. `lora`, `dora`: adapters on a frozen base; `qlora`: a quantised one.",
            required=True,
        ),
        *fields_of(Adapter),
    ),
    main="kind",
)
OPTIMIZER: Final = Table(fields_of(Optimizer), main="name")
PRECISION: Final = Table(fields_of(Precision), main="parameters")
CHECKPOINTING: Final = Table(fields_of(Checkpointing), main="mode")
LOSS: Final = Table(fields_of(Loss), main="kind")
DATA_PARALLEL: Final = Table(fields_of(DataParallel), main="kind")
GENERATE: Final = Table(fields_of(Generation))
