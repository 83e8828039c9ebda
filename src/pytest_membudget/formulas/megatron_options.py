"""What Megatron-LM's arguments decide other than the model, the degrees and the batch.

Names and defaults are those of megatron/training/arguments.py and
megatron/core/transformer/transformer_config.py, NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553;
environment variables are Transformer Engine's (d0067d0da6cb01811b8072a7d304f0e00344ce2b) and cuBLAS's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Backend = Literal["flash", "fused", "unfused"]


@dataclass(frozen=True, slots=True)
class MegatronOptions:
    """How Megatron-core runs a job. Defaults are those of its arguments."""

    transformer_impl: Literal["transformer_engine", "local"] = "transformer_engine"
    attention_backend: Backend = "flash"
    """Transformer Engine's; ``auto`` takes flash attention where it can. The local layers have none but
    the unfused one, whatever is asked for."""
    masked_softmax_fusion: bool = True
    """Of the local layers: apex's kernels; without them the softmax runs in torch."""
    attention_softmax_in_fp32: bool = False
    bias_activation_fusion: bool = True
    """``bias_gelu_fusion`` and ``bias_swiglu_fusion``."""
    bias_dropout_fusion: bool = True
    gradient_accumulation_fusion: bool = True
    """Products add a weight's gradient into ``main_grad`` at once; else it is made in the compute type
    first, and freed by the hook that adds it."""
    create_attention_mask: bool = True
    """``create_attention_mask_in_dataloader``: each micro-batch brings its mask, one byte an entry."""
    gradients_in_16_bits: bool = False
    """``main_grad`` is of the parameters' type, not fp32: with fp16 unless
    ``accumulate_allreduce_grads_in_fp32`` is set, with bf16 where ``grad_reduce_in_bf16`` is."""
    distributed_optimizer_instances: int = 1
    """Over each of them optimizer states are sharded; the data-parallel ranks are divided among them."""
    offload_modules: tuple[str, ...] = ()
    """Of ``fine_grained_activation_offloading``: the modules whose inputs go to the host after forward."""
    distribute_saved_activations: bool = False
    """With full recompute a tensor-parallel rank keeps its part of a layer's input, and gathers it again."""
    token_dispatcher: Literal["allgather", "alltoall", "flex"] = "allgather"
    grouped_gemm: bool = False
    """All experts in one kernel."""
    router_in_fp32: bool = False
    num_layers_in_first_stage: int | None = None
    num_layers_in_last_stage: int | None = None
    account_for_embedding: bool = False
    account_for_loss: bool = False
    layout: tuple[tuple[str, ...], ...] | None = None
    """``pipeline_model_parallel_layout``: a stage's chunk each, in the order of the model, of ``E``
    (embedding), ``t`` (layer), ``m`` (multi-token prediction) and ``L`` (loss)."""
    microbatch_group_size: int | None = None
    """Of the interleaved schedule; None: the pipeline degree."""
    fp8: Literal["none", "hybrid", "e4m3"] = "none"
    fp8_recipe: Literal["delayed", "tensorwise", "blockwise", "mxfp8"] = "delayed"
    fp8_parameters: bool = False
    """``fp8_param_gather``: parameters themselves are 8-bit."""
    not_modelled: tuple[str, ...] = ()
    """Arguments that change what is in memory and that no formula reads."""
    cublas_workspace_bytes: int | None = None
    """Of CUBLAS_WORKSPACE_CONFIG (``:4096:8`` is 8 of 4,096 KiB); None: torch's default for the card."""
