"""From the rest of Megatron-LM's arguments, those that are not about the model, to a job.

Names and defaults: megatron/training/arguments.py, NVIDIA/Megatron-LM
d98e8a64ddf34856e74b24714e3bedb2f5a39553. Arguments that have no part in memory (schedules of the learning
rate, logging, data) are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import UsageMistake
from ..kernels.cublas import cublas_workspace_bytes
from .inputs.fields import Fields
from .job import Checkpointing, DataParallel, Degrees, Job, Optimizer, Precision
from .megatron_options import MegatronOptions
from .model import Model

_SIZES = {
    "micro-batch-size": 1,
    "global-batch-size": None,
    "seq-length": None,
    "tensor-model-parallel-size": 1,
    "pipeline-model-parallel-size": 1,
    "context-parallel-size": 1,
    "expert-model-parallel-size": 1,
    "expert-tensor-parallel-size": None,
    "num-layers-per-virtual-pipeline-stage": None,
    "num-virtual-stages-per-pipeline-rank": None,
    "microbatch-group-size-per-virtual-pipeline-stage": None,
    "num-distributed-optimizer-instances": 1,
    "recompute-num-layers": None,
    "decoder-first-pipeline-num-layers": None,
    "decoder-last-pipeline-num-layers": None,
}
_FLAGS = (
    "sequence-parallel",
    "use-distributed-optimizer",
    "bf16",
    "fp16",
    "no-gradient-accumulation-fusion",
    "no-masked-softmax-fusion",
    "no-bias-gelu-fusion",
    "no-bias-swiglu-fusion",
    "no-bias-dropout-fusion",
    "attention-softmax-in-fp32",
    "apply-query-key-layer-scaling",
    "no-create-attention-mask-in-dataloader",
    "accumulate-allreduce-grads-in-fp32",
    "grad-reduce-in-bf16",
    "recompute-activations",
    "distribute-saved-activations",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "moe-grouped-gemm",
    "fp8-param-gather",
    "fine-grained-activation-offloading",
)
_WORDS = {
    "transformer-impl": "transformer_engine",
    "attention-backend": "auto",
    "recompute-granularity": "",
    "recompute-method": "",
    "recompute-modules": "",
    "moe-token-dispatcher-type": "allgather",
    "moe-router-dtype": "",
    "moe-router-load-balancing-type": "aux_loss",
    "pipeline-model-parallel-layout": "",
    "offload-modules": "",
    "fp8-format": "",
    "fp8-recipe": "delayed",
}
_BACKENDS = {"auto": "flash", "flash": "flash", "fused": "fused", "unfused": "unfused", "local": "unfused"}


def megatron_job(
    model: Model,
    arguments: Mapping[str, object],
    *,
    gpus: int,
    gpu: str | None = None,
    environment: Mapping[str, object] | None = None,
) -> Job:
    """The job that Megatron-LM runs over ``gpus`` GPUs with ``arguments``.

    ``environment``: what CUBLAS_WORKSPACE_CONFIG and Transformer Engine's variables say. Raises
    ``UsageMistake`` where the degrees do not divide the GPUs, or the batch the data-parallel ranks.
    """
    fields = _fields(arguments)
    degrees = _degrees(fields, model, gpus)
    data_parallel = degrees.data_parallel_shard_degree
    micro_batch = fields.size("micro-batch-size")
    batch = fields.optional_size("global-batch-size") or micro_batch * data_parallel
    if batch % (micro_batch * data_parallel):
        raise fields.mistake(
            f"global-batch-size={batch} is no multiple of micro-batch-size={micro_batch} times "
            f"{data_parallel} data-parallel ranks"
        )
    kind = "megatron_distributed" if fields.flag("use-distributed-optimizer") else "megatron"
    return Job(
        model=model,
        implementation="megatron",
        micro_batch=micro_batch,
        sequence=fields.size("seq-length"),
        accumulation=batch // (micro_batch * data_parallel),
        attention="unfused" if _backend(fields) == "unfused" else "flash",
        precision=_precision(fields),
        optimizer=Optimizer("adam", "fused", "megatron", bits=32, keeps_master=True, clips_gradients=True),
        checkpointing=_checkpointing(fields),
        degrees=degrees,
        data_parallel=DataParallel(kind=kind),  # type: ignore[arg-type]
        gpu=gpu,
        megatron=_options(fields, environment or {}, is_gated=_is_gated(model)),
    )


def _fields(arguments: Mapping[str, object]) -> Fields:
    defaults: dict[str, object] = {**_SIZES, **dict.fromkeys(_FLAGS, False), **_WORDS}
    given = {key.removeprefix("--").replace("_", "-"): value for key, value in arguments.items()}
    known = {key: _parsed(key, value) for key, value in given.items() if key in defaults}
    return Fields(known, defaults, "Megatron arguments")


def _word(fields: Fields, key: str) -> str:
    """A name, or nothing."""
    value = fields.raw(key)
    if value is not None and not isinstance(value, str):
        raise fields.wrong(key, "a name")
    return value or ""


def _parsed(key: str, value: object) -> object:
    """Shell scripts and YAML of command lines write numbers and flags as text."""
    if isinstance(value, str) and key in _SIZES and value.isdecimal():
        return int(value)
    if isinstance(value, str) and key in _FLAGS and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def _degrees(fields: Fields, model: Model, gpus: int) -> Degrees:
    tensor = fields.size("tensor-model-parallel-size")
    pipeline = fields.size("pipeline-model-parallel-size")
    context = fields.size("context-parallel-size")
    if gpus % (tensor * pipeline * context):
        raise fields.mistake(
            f"{gpus} GPUs cannot be shared by tensor {tensor} x pipeline {pipeline} x context {context}"
        )
    virtual = _virtual(fields, model, pipeline)
    return Degrees(
        data_parallel_shard_degree=gpus // (tensor * pipeline * context),
        tensor_parallel_degree=tensor,
        context_parallel_degree=context,
        pipeline_parallel_degree=pipeline,
        expert_parallel_degree=fields.size("expert-model-parallel-size"),
        expert_tensor_parallel_degree=fields.optional_size("expert-tensor-parallel-size"),
        sequence_parallel=fields.flag("sequence-parallel") and tensor > 1,  # Megatron turns it off without TP
        pipeline_parallel_schedule="Interleaved1F1B" if virtual > 1 else "1F1B",
        virtual_stages=virtual,
    )


def _virtual(fields: Fields, model: Model, pipeline: int) -> int:
    """Model chunks a rank, however they are asked for; a layout has so many stages."""
    layout = _word(fields, "pipeline-model-parallel-layout")
    if layout:
        return len(read_layout(layout)) // pipeline
    each = fields.optional_size("num-layers-per-virtual-pipeline-stage")
    if each is not None:
        return model.decoder.layer_count // pipeline // each
    return fields.optional_size("num-virtual-stages-per-pipeline-rank") or 1


def read_layout(text: str) -> tuple[tuple[str, ...], ...]:
    """``Et*3|(tt|)*6tmL`` as stages: ``*`` repeats what stands before it, ``|`` ends a stage.

    ``PipelineParallelLayerLayout.parse_str_to_list``,
    megatron/core/transformer/pipeline_parallel_layer_layout.py.
    """
    plain = text.replace(",", "").replace(" ", "")
    pattern = re.compile(r"\(([^()]*)\)\*(\d+)|([A-Za-z])\*(\d+)")
    while found := pattern.search(plain):
        part, times = (found[1], found[2]) if found[1] is not None else (found[3], found[4])
        plain = plain[: found.start()] + part * int(times) + plain[found.end() :]
    if not re.fullmatch(r"[EtmL|]*", plain):
        raise UsageMistake(f"pipeline layout {text!r} cannot be read; write E, t, m, L, |, * and brackets")
    return tuple(tuple(stage) for stage in plain.split("|"))


def _precision(fields: Fields) -> Precision:
    narrow = "bf16" if fields.flag("bf16") else "fp16" if fields.flag("fp16") else "fp32"
    kept = narrow if _has_narrow_gradients(fields) else "fp32"
    return Precision("megatron", narrow, narrow, reduce=kept, gradients=kept)


def _has_narrow_gradients(fields: Fields) -> bool:
    """bf16 turns on accumulation in fp32 by itself, fp16 does not (validate_args)."""
    if fields.flag("bf16"):
        return fields.flag("grad-reduce-in-bf16")
    return fields.flag("fp16") and not fields.flag("accumulate-allreduce-grads-in-fp32")


def _checkpointing(fields: Fields) -> Checkpointing:
    how = _word(fields, "recompute-granularity") or (
        "selective" if fields.flag("recompute-activations") else ""
    )
    if how == "full":
        return Checkpointing(
            "full",
            layers=fields.optional_size("recompute-num-layers"),
            is_by_block=_word(fields, "recompute-method") == "block",
        )
    if how == "selective":
        modules = tuple(re.findall(r"\w+", _word(fields, "recompute-modules"))) or ("core_attn",)
        return Checkpointing("selective", modules=modules)
    return Checkpointing()


def _is_gated(model: Model) -> bool:
    return any(layer.feed_forward.gated for layer, _ in model.decoder.groups)


def _backend(fields: Fields) -> Any:
    name = _word(fields, "attention-backend")
    if name not in _BACKENDS:
        raise fields.wrong("attention-backend", f"one of {', '.join(_BACKENDS)}")
    return _BACKENDS[name]


def _options(fields: Fields, environment: Mapping[str, object], *, is_gated: bool) -> MegatronOptions:
    is_local = _word(fields, "transformer-impl") == "local" or _word(fields, "attention-backend") == "local"
    workspace = environment.get("CUBLAS_WORKSPACE_CONFIG")
    layout = _word(fields, "pipeline-model-parallel-layout")
    gelu = "no-bias-swiglu-fusion" if is_gated else "no-bias-gelu-fusion"
    offloads = fields.flag("fine-grained-activation-offloading")
    return MegatronOptions(
        transformer_impl="local" if is_local else "transformer_engine",
        attention_backend=_backend(fields),
        masked_softmax_fusion=not fields.flag("no-masked-softmax-fusion"),
        attention_softmax_in_fp32=fields.flag("attention-softmax-in-fp32")
        or fields.flag("apply-query-key-layer-scaling"),
        bias_activation_fusion=not fields.flag(gelu),
        bias_dropout_fusion=not fields.flag("no-bias-dropout-fusion"),
        gradient_accumulation_fusion=not fields.flag("no-gradient-accumulation-fusion"),
        create_attention_mask=not fields.flag("no-create-attention-mask-in-dataloader"),
        gradients_in_16_bits=_has_narrow_gradients(fields),
        distributed_optimizer_instances=fields.size("num-distributed-optimizer-instances"),
        offload_modules=tuple(re.findall(r"\w+", _word(fields, "offload-modules"))) if offloads else (),
        distribute_saved_activations=fields.flag("distribute-saved-activations"),
        token_dispatcher=_word(fields, "moe-token-dispatcher-type"),  # type: ignore[arg-type]
        grouped_gemm=fields.flag("moe-grouped-gemm"),
        router_in_fp32=_word(fields, "moe-router-dtype") == "fp32",
        num_layers_in_first_stage=fields.optional_size("decoder-first-pipeline-num-layers"),
        num_layers_in_last_stage=fields.optional_size("decoder-last-pipeline-num-layers"),
        account_for_embedding=fields.flag("account-for-embedding-in-pipeline-split"),
        account_for_loss=fields.flag("account-for-loss-in-pipeline-split"),
        layout=read_layout(layout) if layout else None,
        microbatch_group_size=fields.optional_size("microbatch-group-size-per-virtual-pipeline-stage"),
        fp8=_word(fields, "fp8-format") or "none",  # type: ignore[arg-type]
        fp8_recipe=_word(fields, "fp8-recipe"),  # type: ignore[arg-type]
        fp8_parameters=fields.flag("fp8-param-gather"),
        cublas_workspace_bytes=None
        if not workspace
        else cublas_workspace_bytes((9, 0), (2, 13), str(workspace)),
    )
