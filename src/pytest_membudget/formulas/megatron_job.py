"""From the rest of Megatron-LM's arguments, those that are not about the model, to a job.

Names and defaults: megatron/training/arguments.py, NVIDIA/Megatron-LM
d98e8a64ddf34856e74b24714e3bedb2f5a39553.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import UsageMistake
from .inputs.fields import Fields
from .inputs.megatron_known import JOB_FLAGS, JOB_SIZES, JOB_WORDS, check_names, not_modelled, plain_name
from .job import Checkpointing, DataParallel, Degrees, Job, Optimizer, Precision
from .kernels.cublas import cublas_workspace_bytes
from .megatron_options import MegatronOptions
from .model import Model

_WHERE = "Megatron arguments"
#: What words can be, where another one would be taken for the default.
_CHOICES = {
    "transformer-impl": ("transformer_engine", "local"),
    "recompute-granularity": ("full", "selective"),
    "recompute-method": ("uniform", "block"),
    "moe-token-dispatcher-type": ("allgather", "alltoall", "flex"),
    "moe-router-dtype": ("fp32",),
    "fp8-format": ("hybrid", "e4m3"),
    "fp8-recipe": ("delayed", "tensorwise", "blockwise", "mxfp8"),
}
#: The modules of a list that formulas have.
_RECOMPUTED = ("core_attn", "mlp", "layernorm", "mla_up_proj", "moe_act")
_OFFLOADED = ("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act")
#: Each makes an end of the model count as a layer, and the others share the layers out in other ways.
_ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
_UNEVEN = (
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "pipeline-model-parallel-layout",
)
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
    given = {plain_name(key): value for key, value in arguments.items()}
    check_names(given, _WHERE, is_bert=not model.decoder.is_causal)
    fields = _fields(given)
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
        megatron=replace(
            _options(fields, environment or {}, is_gated=_is_gated(model)), not_modelled=not_modelled(given)
        ),
    )


def _fields(given: Mapping[str, object]) -> Fields:
    defaults: dict[str, object] = {**JOB_SIZES, **dict.fromkeys(JOB_FLAGS, False), **JOB_WORDS}
    known = {key: _parsed(key, value) for key, value in given.items() if key in defaults}
    return Fields(known, defaults, _WHERE)


def _word(fields: Fields, key: str) -> str:
    """A name, or nothing."""
    value = fields.raw(key)
    if value is not None and not isinstance(value, str):
        raise fields.wrong(key, "a name")
    if value and value not in _CHOICES.get(key, (value,)):
        raise fields.wrong(key, " or ".join(_CHOICES[key]))
    return value or ""


def _modules(fields: Fields, key: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The modules that a list names, as ``[core_attn mlp]``."""
    found = tuple(re.findall(r"\w+", _word(fields, key)))
    if not set(found) <= set(known):
        raise fields.wrong(key, f"some of {', '.join(known)}; no formula has others")
    return found


def _parsed(key: str, value: object) -> object:
    """Shell scripts and YAML of command lines write numbers and flags as text."""
    if isinstance(value, str) and key in JOB_SIZES and value.isdecimal():
        return int(value)
    if isinstance(value, str) and key in JOB_FLAGS and value.lower() in ("true", "false"):
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
        of_stage, rest = divmod(model.decoder.layer_count + len(_ends_as_layers(fields)), pipeline)
        if rest or of_stage % each:
            raise fields.wrong(
                "num-layers-per-virtual-pipeline-stage",
                f"a number that divides a stage's layers: {model.decoder.layer_count} and what counts as one "
                f"more over {pipeline} stages",
            )
        return of_stage // each
    return fields.optional_size("num-virtual-stages-per-pipeline-rank") or 1


def _ends_as_layers(fields: Fields) -> list[str]:
    """Which ends of the model count as a layer each; not with another way to share out the layers.

    ``TransformerConfig.__post_init__`` and ``get_num_layers_to_build``, megatron/core/transformer.
    """
    found = [key for key in _ENDS if fields.flag(key)]
    others = [key for key in _UNEVEN if key in fields]
    if found and others:
        raise fields.mistake(f"{found[0]} and {others[0]} exclude each other; leave one of them out")
    return found


def read_layout(text: str) -> tuple[tuple[str, ...], ...]:
    """``Et*3|(tt|)*6tmL`` as stages: ``*`` repeats what comes before it, ``|`` ends a stage.

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
        modules = _modules(fields, "recompute-modules", _RECOMPUTED)
        return Checkpointing("selective", modules=modules or ("core_attn",))
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
    ends = _ends_as_layers(fields)
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
        offload_modules=_modules(fields, "offload-modules", _OFFLOADED) if offloads else (),
        distribute_saved_activations=fields.flag("distribute-saved-activations"),
        token_dispatcher=_word(fields, "moe-token-dispatcher-type"),  # type: ignore[arg-type]
        grouped_gemm=fields.flag("moe-grouped-gemm"),
        router_in_fp32=_word(fields, "moe-router-dtype") == "fp32",
        num_layers_in_first_stage=fields.optional_size("decoder-first-pipeline-num-layers"),
        num_layers_in_last_stage=fields.optional_size("decoder-last-pipeline-num-layers"),
        account_for_embedding=_ENDS[0] in ends,
        account_for_loss=_ENDS[1] in ends,
        layout=read_layout(layout) if layout else None,
        microbatch_group_size=fields.optional_size("microbatch-group-size-per-virtual-pipeline-stage"),
        fp8=_word(fields, "fp8-format") or "none",  # type: ignore[arg-type]
        fp8_recipe=_word(fields, "fp8-recipe"),  # type: ignore[arg-type]
        fp8_parameters=fields.flag("fp8-param-gather"),
        cublas_workspace_bytes=None
        if not workspace
        else cublas_workspace_bytes((9, 0), (2, 13), str(workspace)),
    )
