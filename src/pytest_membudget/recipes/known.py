"""What recipes and formulas read of a scenario, and need. Imports no torch: collection asks it."""

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from ..errors import UsageMistake
from ..formulas.decoder import Decoder, Shape
from ..formulas.sources import decoder_of
from ..scenarios.job import FACTORS, Job, Model, Optimizer

#: Classes of ``torch.optim`` (2.13) by the names of scenario files; other libraries' are called the same.
TORCH_NAMES: Final[Mapping[str, str]] = {
    "adamw": "AdamW", "adam": "Adam", "nadam": "NAdam", "radam": "RAdam", "adamax": "Adamax",
    "adadelta": "Adadelta", "adagrad": "Adagrad", "asgd": "ASGD", "rmsprop": "RMSprop", "rprop": "Rprop",
    "sgd": "SGD", "adafactor": "Adafactor", "lion": "Lion",
}  # fmt: skip
#: Which of them each library has: torch 2.13, transformers 5.23, bitsandbytes 0.50, torchao 0.18.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": tuple(name for name in TORCH_NAMES if name != "lion"),
    "transformers": ("adafactor",),
    "bitsandbytes": ("adamw", "adam", "adagrad", "lion", "rmsprop", "sgd"),
    "torchao": ("adamw", "adam"),
}
_BITS: Final = {"bitsandbytes": (8, 32), "torchao": (4, 8)}
_PAGED: Final = ("adamw", "adam", "lion")
_FUSED: Final = ("adamw", "adam", "adagrad", "sgd")

_MODEL: Final = ("model", "implementation", "environment", "micro_batch", "sequence")
_STEP: Final = (
    *("attention", "accumulation", "compiled", "loss.kind", "loss.chunks", "generate", "offload"),
    *("teacher", "checkpointing.mode", "checkpointing.every"),
    *("precision.policy", "precision.parameters", "precision.compute", "precision.reduce"),
    *("optimizer.name", "optimizer.implementation", "optimizer.library", "optimizer.bits"),
    *("optimizer.is_paged", "optimizer.momentum", "optimizer.in_backward", "optimizer.clips_gradients"),
)
_LAYOUT: Final = (
    *("gpus", "data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree"),
    *("sequence_parallel", "data_parallel.kind", "data_parallel.reshards_after_forward"),
)
_PIPELINE: Final = ("pipeline_parallel_degree", "pipeline_parallel_schedule", "virtual_stages")
#: Later ones are for nightly builds of torch, and have no ``JobConfig``.
_TITAN_RELEASE: Final = "0.2"
_TITAN: Final = (
    *("gpus", "accumulation", "compiled", "offload", "checkpointing", "optimizer.name"),
    *("optimizer.implementation", "precision.parameters", "precision.compute"),
    *(*FACTORS, "expert_parallel_degree", "pipeline_parallel_schedule"),
    "data_parallel.reshards_after_forward",
)
#: Fields by the recipe that reads them, tables' as ``table.field`` or, where it reads all of one, its name.
READS: Final[Mapping[str, frozenset[str]]] = {
    "transformers": frozenset({*_MODEL, *_STEP, *_LAYOUT, "method"}),
    "plain": frozenset({*_MODEL, *_STEP, *_LAYOUT, *_PIPELINE}),
    "torchtitan": frozenset({*_MODEL, *_TITAN}),
}
#: What formulas do not read, as above.
_NOT_IN_FORMULAS: Final = ("environment", "optimizer.clips_gradients", "method.dropout")


def unread(implementation: str, name: str) -> str:
    """Why the field ``name``, as ``sequence`` or ``optimizer.bits``, may not be written; empty if it may."""
    if implementation == "formulas" and name in _NOT_IN_FORMULAS:
        return "formulas do not read it; leave it out, or let a library run the job"
    readers = [one for one, reads in READS.items() if name in reads or name.partition(".")[0] in reads]
    if implementation not in READS or implementation in readers:
        return ""
    remedy = f"write implementation: {' or '.join([*readers, 'formulas'])}, or leave it out"
    return f"the recipe {implementation} does not read it; {remedy}"


def mistakes_in(job: Job) -> Iterator[tuple[str, str]]:
    """Fields that nothing can run or compute together, each with what to write instead."""
    if job.implementation == "megatron":
        what = "no recipe runs Megatron-LM; write a script: of its pretrain_gpt.py (docs/scenarios.md)"
        yield "implementation", f"{what}, or implementation: formulas"
    elif job.implementation == "formulas":
        yield from _of_formulas(job)
    else:
        yield from _of_recipes(job)


def _of_recipes(job: Job) -> Iterator[tuple[str, str]]:
    yield from _of_libraries(job)
    yield from _of_the_models(job)
    yield from _of_the_optimizer(job.optimizer)
    yield from _of_the_layout(job)
    yield from _of_the_step(job)
    if job.implementation == "torchtitan":
        yield from _of_torchtitan(job)


def _of_libraries(job: Job) -> Iterator[tuple[str, str]]:
    wanted: dict[str, str] = {"implementation": job.implementation, "optimizer": job.optimizer.library}
    if job.adapter is not None:
        wanted["method"] = "peft"
        if job.adapter.base is not None and importlib.util.find_spec("peft") is not None:
            wanted["method"] = "bitsandbytes"
    for name, library in wanted.items():
        if library not in ("plain", "torch") and importlib.util.find_spec(library) is None:
            remedy = "" if name != "implementation" else ", or write implementation: plain for a Llama"
            yield name, f"{library} is not installed; run pip install {library}{remedy}"


def _of_the_models(job: Job) -> Iterator[tuple[str, str]]:
    if job.implementation == "plain":
        for name, model in (("model", job.model), ("teacher", job.teacher)):
            try:
                shape = shape_of(model) if model is not None else None
            except UsageMistake as error:
                yield name, str(error)
            else:
                if name == "teacher" or shape is None:
                    continue
                yield from _of_the_split(job, shape.heads, shape.layers)
                yield from _of_the_stages(job)
        return
    values = job.model.values
    if job.model.source != "config":
        return
    heads, vocab = values.get("num_attention_heads"), values.get("vocab_size")
    if isinstance(heads, int):
        yield from _of_the_split(job, heads)
    teachers = job.teacher.values.get("vocab_size") if job.teacher is not None else None
    if isinstance(teachers, int) and isinstance(vocab, int) and teachers < vocab:
        yield "teacher", f"its vocabulary is {teachers}, the model's {vocab}: their logits cannot be compared"


def _of_formulas(job: Job) -> Iterator[tuple[str, str]]:
    try:
        decoder = decoder_of(job.model)
    except UsageMistake as error:
        yield "model", str(error)
        return
    yield from _of_the_split(job, decoder.shape.heads, len(decoder.layers))
    yield from _of_the_experts(job, decoder)
    if job.teacher is not None:
        try:
            vocab = decoder_of(job.teacher).shape.vocab
        except UsageMistake as error:
            yield "teacher", str(error)
        else:
            if vocab != decoder.shape.vocab:
                what = f"its vocabulary is {vocab}, the model's {decoder.shape.vocab}"
                yield "teacher", f"{what}: their logits cannot be compared"


def _of_the_split(job: Job, heads: int, layers: int | None = None) -> Iterator[tuple[str, str]]:
    """What cannot be split as ``job`` does: so many ``heads`` and, where they are known, ``layers``."""
    degrees = job.degrees
    if heads % degrees.tensor_parallel_degree:
        yield "tensor_parallel_degree", f"{degrees.tensor_parallel_degree} does not divide the {heads} heads"
    stages = degrees.pipeline_parallel_degree * degrees.virtual_stages
    if layers is not None and stages > layers:
        yield "pipeline_parallel_degree", f"{stages} stages, and the model has {layers} layers"


def _of_the_experts(job: Job, decoder: Decoder) -> Iterator[tuple[str, str]]:
    degree = job.degrees.expert_parallel_degree
    count = decoder.shape.experts
    if degree > 1 and not count:
        yield "expert_parallel_degree", f"{degree}, and the model has no experts"
        return
    if count % degree:
        yield "expert_parallel_degree", f"{degree} does not divide the {count} experts"
    ranks = job.degrees.gpus // job.degrees.pipeline_parallel_degree
    if ranks % degree:
        yield "expert_parallel_degree", f"{degree} does not divide the {ranks} ranks of a stage"


def _of_the_optimizer(optimizer: Optimizer) -> Iterator[tuple[str, str]]:
    names, library = _NAMES[optimizer.library], optimizer.library
    if optimizer.name not in names:
        yield "optimizer", f"{library} has no {optimizer.name}; it has {', '.join(names)}"
    bits = _BITS.get(library, ())
    if optimizer.bits is not None and optimizer.bits not in bits:
        has = f"{library} has {' and '.join(map(str, bits))}" if bits else "write library: bitsandbytes too"
        yield "optimizer", f"bits: {optimizer.bits}: {has}"
    if optimizer.is_paged and library != "bitsandbytes":
        yield "optimizer", "is_paged is of bitsandbytes; write library: bitsandbytes too"
    if library == "bitsandbytes" and optimizer.name == "sgd" and not optimizer.momentum:
        yield "optimizer", "bitsandbytes has no sgd without momentum; write momentum: true"
    if optimizer.is_paged and optimizer.name not in _PAGED:
        yield "optimizer", f"is_paged is of {', '.join(_PAGED)}, and this is {optimizer.name}"
    if optimizer.implementation is not None and library != "torch":
        yield "optimizer", f"implementation is of torch's optimizers; leave it out with {library}"
    if optimizer.implementation == "fused" and optimizer.name not in _FUSED:
        yield "optimizer", f"torch's {optimizer.name} is not fused; write foreach or loop"
    if optimizer.momentum and optimizer.name not in ("sgd", "rmsprop"):
        yield "optimizer", f"momentum is of sgd and rmsprop, and this is {optimizer.name}"
    if optimizer.in_backward and optimizer.clips_gradients:
        what = "in_backward frees each gradient at once, and clips_gradients needs all; leave one out"
        yield "optimizer", what


def _of_the_layout(job: Job) -> Iterator[tuple[str, str]]:
    degrees, kind = job.degrees, job.data_parallel.kind
    if kind in ("zero2", "zero3"):
        yield "data_parallel", f"torch has no {kind}; write fsdp2, or implementation: formulas"
    is_whole = kind in ("ddp", "zero1")
    if is_whole and (degrees.tensor_parallel_degree > 1 or degrees.context_parallel_degree > 1):
        yield "data_parallel", f"{kind} is for whole models here; write fsdp2 with the other degrees"
    if is_whole and degrees.data_parallel_shard_degree > 1:
        what = f"{kind} shards no parameters; write data_parallel_replicate_degree"
        yield "data_parallel_shard_degree", what
    if degrees.sequence_parallel and degrees.tensor_parallel_degree == 1:
        what = "there is no tensor_parallel_degree that it is with; write one, or leave it out"
        yield "sequence_parallel", what


def _of_the_stages(job: Job) -> Iterator[tuple[str, str]]:
    alone = {
        "sequence_parallel": job.degrees.sequence_parallel,
        "precision": job.precision.policy == "autocast",
        "data_parallel": job.data_parallel.kind != "fsdp2",
        "loss": job.loss.kind == "chunked",
        "teacher": job.teacher,
        "offload": job.offload,
        "optimizer": job.optimizer.in_backward,
    }
    is_pipeline = job.degrees.pipeline_parallel_degree * job.degrees.virtual_stages > 1
    for name in (name for name, is_there in alone.items() if is_there and is_pipeline):
        yield name, "no stage of a pipeline is run with it; leave one of the two out"


def _of_the_step(job: Job) -> Iterator[tuple[str, str]]:
    shards = job.data_parallel.kind == "fsdp2" and job.degrees.gpus > 1
    if job.precision.policy == "fsdp" and not shards and job.implementation != "torchtitan":
        yield "precision", "policy: fsdp is FSDP2's; write gpus, or policy: autocast"
    if "parameters" in job.offload and not shards:
        yield "offload", "parameters are offloaded by FSDP2; write gpus"
    if job.generation is not None and job.degrees.gpus > 1:
        yield "generate", "is run on one GPU; leave gpus out"
    if job.teacher is not None and job.generation is not None:
        yield "teacher", "nothing is distilled in generation; leave teacher or generate out"
    if job.adapter is not None and job.adapter.base is not None and job.degrees.gpus > 1:
        yield "method", "a quantised base is run on one GPU; leave gpus out"
    if job.loss.kind == "chunked" and job.teacher is None and job.degrees.tensor_parallel_degree > 1:
        yield "loss", "chunked is for a head that is not split; leave it out with tensor_parallel_degree"


def _of_torchtitan(job: Job) -> Iterator[tuple[str, str]]:
    with suppress(PackageNotFoundError):  # a checkout, whose release nobody says
        found = version("torchtitan")
        if not found.startswith(f"{_TITAN_RELEASE}."):
            what = f"the recipe knows torchtitan {_TITAN_RELEASE}, and {found} is installed"
            yield "implementation", f"{what}; run pip install 'torchtitan=={_TITAN_RELEASE}.*'"
    if job.optimizer.name not in ("adam", "adamw"):
        yield "optimizer", f"torchtitan has adam and adamw, and this is {job.optimizer.name}"
    if "fp16" in (job.precision.parameters, job.precision.compute):
        yield "precision", "torchtitan has fp32 and bf16; write one of them"
    if "activations" in job.offload:
        yield "offload", "torchtitan offloads parameters; write parameters alone"


def shape_of(model: Model) -> Shape:
    """The shape of ``model``. Raises ``UsageMistake`` for one that is no Llama, or cannot be read."""
    decoder = decoder_of(model)
    others = _others(decoder)
    if others:
        what = " and ".join(others)
        raise UsageMistake(
            f"{model.name} has {what}, and implementation: plain is a Llama; write another one"
        )
    return decoder.layers[0]


def _others(decoder: Decoder) -> list[str]:
    """What ``decoder`` has and a Llama has not, in words."""
    shape = decoder.layers[0]
    found = {
        "layers of two kinds": any(one != shape for one in decoder.layers),
        "learned positions": shape.positions,
        "a projected embedding": shape.embedding_dim not in (0, shape.hidden),
        "a bias on its head": shape.head_bias,
        "no final norm": not shape.final_norm,
        "latent attention": shape.kv_rank,
        "norms on queries and keys": shape.qk_norm not in (None, "unweighted"),
        "attention sinks": shape.sinks,
        "a bias on attention's output": shape.output_bias,
        "values of another width": shape.value_dim != shape.head_dim,
        "experts": shape.experts,
        "biases in its feed-forward block": shape.mlp_bias,
        "a feed-forward block without a gate": not shape.gated,
        "other norms": shape.norms != 2 or shape.norm != "rms",
        "dropout": shape.dropout,
    }
    return [name for name, is_there in found.items() if is_there]
