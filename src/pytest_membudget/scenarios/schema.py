"""The fields of a scenario and of a script, each with its type, default and meaning.

The JSON Schema that editors read (``schemas/membudget.schema.json``) and the tables of ``docs/scenarios.md``
are generated from them, by ``tests/json_schemas.py`` and ``tests/scenarios/field_tables.py``.
"""

import shlex
from dataclasses import replace
from typing import Any, Final

from ..budgets.budget import ARGUMENTS
from ..user_input.fields import Field, Table, fields_of
from ..user_input.kinds import TABLE, choice, is_text, list_of, parsed, text, text_or_table, whole
from . import job

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
_OF_TEACHER: Final = Field("type", job.NUMBER_TYPE, "Number type of its parameters.", "the compute type")
TEACHER: Final = replace(MODEL, fields=(*_MODEL_SOURCES, _OF_TEACHER))

METHOD: Final = Table(
    (
        Field(
            "kind",
            choice(("full", "lora", "qlora", "dora")),
            "`full`: every parameter. `lora`, `dora`: adapters on a frozen base; `qlora`: a quantised one.",
            required=True,
        ),
        *fields_of(job.Adapter),
    ),
    main="kind",
)
OPTIMIZER: Final = Table(fields_of(job.Optimizer), main="name")
PRECISION: Final = Table(fields_of(job.Precision), main="parameters")
CHECKPOINTING: Final = Table(fields_of(job.Checkpointing), main="mode")
LOSS: Final = Table(fields_of(job.Loss), main="kind")
DATA_PARALLEL: Final = Table(fields_of(job.DataParallel), main="kind")
GENERATE: Final = Table(fields_of(job.Generation))

_OF_JOB: Final = {one.name: one for one in fields_of(job.Job)}


def _shared(*names: str) -> tuple[Field, ...]:
    """Fields that the marker also has."""
    return tuple(ARGUMENTS.by_name[name] for name in names)


def _variables(written: Any) -> tuple[tuple[str, str], ...]:
    example = "as in environment: {WANDB_MODE: disabled}"
    if not isinstance(written, dict):
        raise ValueError(f"write a table of variables, {example}")
    for name, value in written.items():
        if type(value) not in (str, int, float):
            raise ValueError(f"{name} is no text; write its value in quotes, {example}")
    return tuple(sorted((name, str(value)) for name, value in written.items()))


_ENVIRONMENT: Final = Field(
    "environment",
    parsed("table of texts", _variables, {"type": "object"}),
    "Environment variables, added to the session's: `{WANDB_MODE: disabled}`.",
)

#: Groups of fields, in the order of the docs.
GROUPS: Final[dict[str, tuple[Field, ...]]] = {
    "The budget": (
        NAME,
        *_shared("gib", "gpu"),
        Field(
            "gpus", whole(example=8), "How many GPUs there are: the product of the degrees.", "that product"
        ),
        *_shared("host_gib", "held_gib", "metric", "components", "max_growth"),
    ),
    "The model": (
        Field("model", MODEL, "The model: exactly one of its fields.", required=True),
        Field("teacher", TEACHER, "A frozen model to distil from, as `model`."),
        _OF_JOB["implementation"],
        _OF_JOB["attention"],
    ),
    "The step": (
        Field("method", METHOD, "What is trained.", "full"),
        Field("optimizer", OPTIMIZER, "How parameters are updated.", "adamw"),
        Field("precision", PRECISION, "Number types.", "bf16"),
        Field("checkpointing", CHECKPOINTING, "What is recomputed in backward.", "none"),
        _OF_JOB["micro_batch"],
        _OF_JOB["sequence"],
        _OF_JOB["accumulation"],
        Field("loss", LOSS, "The head's logits and the loss.", "full"),
        _OF_JOB["offload"],
        _OF_JOB["compiled"],
        _ENVIRONMENT,
        Field("generate", GENERATE, "Inference in place of training."),
    ),
    "The GPUs": (
        *fields_of(job.Degrees, example=8),
        Field("data_parallel", DATA_PARALLEL, "What data-parallel ranks share out.", "fsdp2"),
    ),
}

_ALL: Final = tuple(one for group in GROUPS.values() for one in group)

#: What says which tests an entry makes.
NOT_IN_A_GRID: Final = ("name", "grid")
#: What each entry says itself.
NOT_IN_DEFAULTS: Final = ("name", "script")

SCENARIO: Final = Table(_ALL)
"""One test: a budget whose grid is expanded."""
BUDGET: Final = replace(SCENARIO, fields=(*_ALL, GRID))
"""One entry of ``budgets:``."""

_SCRIPT_EXAMPLE: Final = "as in script: train.py --batch_size=12"
#: What starts a script in a shell.
_STARTERS: Final = ("python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun", "srun")


def _command(written: Any) -> tuple[str, ...]:
    if not is_text(written):
        raise ValueError(f"write a script and its arguments, {_SCRIPT_EXAMPLE}")
    try:
        words = tuple(shlex.split(written))
    except ValueError as error:
        raise ValueError(f"{error}; write it as for a shell, {_SCRIPT_EXAMPLE}") from None
    if words[0] in _STARTERS:
        ranks = "" if words[0].startswith("python") else "; how many ranks there are is gpus:"
        raise ValueError(f"write the script without {words[0]}, {_SCRIPT_EXAMPLE}{ranks}")
    if words == ("-m",):
        raise ValueError("write a module, as in script: -m package.train --batch_size=12")
    return words


SCRIPT: Final = Table(
    (
        NAME,
        Field(
            "script",
            parsed("command line", _command),
            "A Python script and its arguments, split as a shell does, or `-m` and a module. It runs as it "
            "is, as `__main__`.",
            required=True,
        ),
        Field(
            "cwd",
            text("nanoGPT"),
            "The folder that it runs in, from this file. The script's path begins there.",
            "this file's folder",
        ),
        _ENVIRONMENT,
        Field(
            "outputs",
            list_of(text("runs")),
            "Folders that it writes, from `cwd`: what it makes there does not keep its estimate from being "
            "[cached](guide.md#cached-estimates).",
        ),
        *ARGUMENTS.fields,
    ),
)
"""One test: an entry with ``script:`` whose grid is expanded."""
