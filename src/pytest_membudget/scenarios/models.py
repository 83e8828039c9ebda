"""The model of a scenario, and the job that its implementation runs by default, before other fields apply."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageMistake
from ..formulas.inputs import explicit, hugging_face, megatron_arguments, torchtitan_arguments
from ..formulas.inputs.megatron_known import OF_THE_JOB, OF_THE_MODEL
from ..formulas.job import DataParallel, Job, Precision
from ..formulas.megatron_job import megatron_job
from ..formulas.model import Model
from ..user_input.nodes import Node
from .parts import MODEL
from .reading import Written

MEGATRON, TORCHTITAN = "megatron", "torchtitan"

#: Megatron-LM's names of a scenario's fields.
_ARGUMENTS = {
    "micro_batch": "micro-batch-size",
    "sequence": "seq-length",
    "tensor_parallel_degree": "tensor-model-parallel-size",
    "context_parallel_degree": "context-parallel-size",
    "pipeline_parallel_degree": "pipeline-model-parallel-size",
    "expert_parallel_degree": "expert-model-parallel-size",
    "expert_tensor_parallel_degree": "expert-tensor-parallel-size",
    "sequence_parallel": "sequence-parallel",
}
#: Megatron-LM's options if a scenario gives none of its arguments; they replace its parser's defaults.
_USUAL = {
    "bf16": True,
    "use-distributed-optimizer": True,
    "seq-length": Job.__dataclass_fields__["sequence"].default,
}
_DATA_RANKS = ("data_parallel_replicate_degree", "data_parallel_shard_degree")

#: Names and values of Megatron's arguments.
Arguments = tuple[tuple[str, Any], ...]


def base_of(written: Written) -> Job | None:
    """The job of the model as its implementation runs it by default; None if there is none."""
    values = written.values
    source = _source_of(values["model"])
    arguments = tuple((argument, values[name]) for name, argument in _ARGUMENTS.items() if name in values)
    model = model_of("model", arguments, written)
    if model is None:
        return None
    implementation = values.get("implementation") or (source if source in (MEGATRON, TORCHTITAN) else None)
    if source == MEGATRON and implementation != MEGATRON:
        what = f"{implementation} does not run Megatron's arguments; leave it out"
        written.refuse("implementation", what)
    others = values.get(MEGATRON)
    if others is not None and (source == MEGATRON or implementation != MEGATRON):
        remedy = "put them into model.megatron" if source == MEGATRON else "write implementation: megatron"
        written.refuse(MEGATRON, f"nothing reads these arguments here; {remedy}")
    if implementation == MEGATRON:
        known = _megatron_arguments(others) if others is not None else {}
        of_model = sorted(known.keys() & OF_THE_MODEL - OF_THE_JOB)
        if of_model:  # nothing else would read it
            written.refuse(MEGATRON, f"{of_model[0]} is the model's, which model: says; leave it out here")
            return None
        own = _megatron_arguments(values["model"][MEGATRON]) if source == MEGATRON else {**_USUAL, **known}
        return _megatron(model, {**own, **dict(arguments)}, written)
    return _torchtitan(model, values) if implementation == TORCHTITAN else Job(model)


def _megatron(model: Model, arguments: Mapping[str, Any], written: Written) -> Job | None:
    try:
        return megatron_job(model, arguments, gpus=_gpus(arguments, written.values))
    except UsageMistake as error:
        name = MEGATRON if MEGATRON in written.values else "model"
        written.mistakes.add(written.entry.fields[name], str(error))
        return None


def _gpus(arguments: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """The number of GPUs as written, or the product of Megatron's arguments and the scenario's degrees."""
    if "gpus" in values:
        return int(values["gpus"])
    product = 1
    for name in ("tensor-model-parallel-size", "context-parallel-size", "pipeline-model-parallel-size"):
        written = str(arguments.get(name, 1))
        product *= int(written) if written.isdecimal() else 1  # its reader reports values that are no numbers
    for name in _DATA_RANKS:
        product *= max(1, values.get(name, 1))
    return product


def _torchtitan(model: Model, values: Mapping[str, Any]) -> Job:
    """torchtitan keeps fp32 parameters and computes in bf16: by FSDP where that is on, else by autocast.

    ``training.mixed_precision_param`` and ``mixed_precision_reduce``, torchtitan/config, b5bcd76.
    """
    replicated_only = _DATA_RANKS[0] in values or values.get("data_parallel", {}).get("kind") == "ddp"
    shards = any(abs(values.get(name, 1)) > 1 for name in (_DATA_RANKS[1], "context_parallel_degree"))
    takes_rest = values.get(_DATA_RANKS[1]) == -1 or (
        _DATA_RANKS[1] not in values and "gpus" in values and not replicated_only
    )
    policy = "fsdp" if shards or takes_rest else "autocast"
    return Job(
        model,
        implementation=TORCHTITAN,  # type: ignore[arg-type] # one of its values
        precision=Precision(policy, "fp32", "bf16", reduce="fp32"),  # type: ignore[arg-type] # the same
        data_parallel=DataParallel(wraps_ends=True),
    )


def model_of(name: str, arguments: Arguments, written: Written) -> Model | None:
    """The model that the field ``name`` names; None if it cannot be read.

    ``arguments`` of Megatron's are put over those that are written: they pad the vocabulary.
    """
    node, values = written.entry.fields[name], written.values[name]
    source = _source_of(values)
    try:
        return _model(source, values[source], arguments if source == MEGATRON else (), written.folder)
    except UsageMistake as error:
        written.mistakes.add(node.value[source] if isinstance(node.value, dict) else node, str(error))
        return None


def _model(source: str, node: Node, arguments: Arguments, folder: Path) -> Model:
    where = f"model.{source}"
    if source == MEGATRON:
        known = {**_megatron_arguments(node), **dict(arguments)}
        return megatron_arguments.read_megatron(known, where=where)[0]
    if source == TORCHTITAN:
        titan = {"flavor": node.value} if isinstance(node.value, str) else node.plain
        return torchtitan_arguments.read_torchtitan(titan, where=where)
    if source == "shape":
        return explicit.read_shape(node.plain, where=where)
    if isinstance(node.value, dict):
        return hugging_face.read_config(node.plain, where=where)
    return hugging_face.model_of_path(folder / node.value)


def _source_of(values: Mapping[str, Any]) -> str:
    [source] = [name for name in MODEL.one_of if name in values]
    return source


def _megatron_arguments(node: Node) -> dict[str, Any]:
    """Arguments by their names on Megatron's command line, without dashes."""
    return {key.removeprefix("--").replace("_", "-"): value for key, value in node.plain.items()}
