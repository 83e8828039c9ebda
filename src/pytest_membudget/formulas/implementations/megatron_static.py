"""What a Megatron-LM rank holds at every moment: parameters, gradient buffers, states, buffers, workspaces.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553: megatron/core/distributed/
param_and_grad_buffer.py, megatron/core/optimizer/optimizer.py and distrib_optimizer.py,
megatron/training/utils (get_batch_on_this_tp_rank); NVIDIA/TransformerEngine
d0067d0da6cb01811b8072a7d304f0e00344ce2b: transformer_engine/pytorch/module/base.py (workspaces),
optimizers/fused_adam.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...components import BUFFERS, GRADIENTS, INPUTS, OPTIMIZER_STATES, PARAMETERS, TEMPORARIES, WORKSPACES
from ...hardware.gpus import find_gpu
from ...units import MIB
from ..kernels.cublas import cublas_workspace_bytes
from ..local_tensors import LocalTensor
from ..model import Experts
from ..number_types import bytes_for
from ..sharding import ceil_div, shard_ranks
from ..stage import Stage
from ..terms import Term
from .megatron_experts import spread
from .megatron_sizes import MegatronSizes, sizes_of

_BUFFER = "megatron/core/distributed/param_and_grad_buffer.py"
_OPTIMIZER = "megatron/core/optimizer"
_GLOBAL_BUFFER = "megatron/core/utils.py GlobalMemoryBuffer"
#: Parameters that no product reads.
_LOOKED_UP = ("embedding", "position", "router")
_TE_BASE = "transformer_engine/pytorch/module/base.py"
#: Streams that Transformer Engine's grouped products run on, each with a workspace (module/base.py).
_GROUPED_STREAMS = 4


def static_terms(stage: Stage, tensors: Sequence[LocalTensor]) -> tuple[Term, ...]:
    """All that is there from the first step's end on."""
    sizes = sizes_of(stage)
    return (
        *_parameters(stage, tensors),
        *_gradients(stage, tensors),
        *_states(stage, tensors),
        *_inputs(sizes, stage),
        *_lasting_buffers(sizes, stage),
        *_stand_ins(sizes, tensors),
        *_workspaces(sizes, stage),
    )


def is_distributed(stage: Stage) -> bool:
    """Its optimizer's states are sharded over the data-parallel ranks."""
    return stage.job.data_parallel.kind == "megatron_distributed"


def _parameters(stage: Stage, tensors: Sequence[LocalTensor]) -> list[Term]:
    """A tensor each; with the distributed optimizer parts of one buffer, which is what is gathered into."""
    if not is_distributed(stage):
        return [
            Term(PARAMETERS, tensor.name, tensor.bytes, "elements*type").times(tensor.count)
            for tensor in tensors
        ]
    return [
        Term(PARAMETERS, f"{name} buffer", sum(t.bytes * t.count for t in some), "elements*type", _BUFFER)
        for name, some in _buffers(tensors)
    ]


def _gradients(stage: Stage, tensors: Sequence[LocalTensor]) -> list[Term]:
    """``main_grad``: a buffer of all trained parameters, another of experts; fp32 unless asked otherwise."""
    sizes = sizes_of(stage)
    element = 2 if sizes.options.gradients_in_16_bits else 4
    return [
        Term(GRADIENTS, f"main_grad of {name}", elements(some) * element, f"elements*{element}", _BUFFER)
        for name, some in _buffers(t for t in tensors if t.is_trained)
    ]


def _states(stage: Stage, tensors: Sequence[LocalTensor]) -> list[Term]:
    """Adam's two moments in fp32, and an fp32 copy of 16-bit parameters.

    ``Float16OptimizerWithFloat16Params``: of every parameter. ``DistributedOptimizer``: of this rank's even
    part of each buffer; with several instances of the optimizer over the ranks of one.
    """
    found: list[Term] = []
    for name, some in _buffers(t for t in tensors if t.is_trained):
        ranks = state_ranks(stage, is_expert=name == "experts")
        for kind, of in (("fp32 parameters", _narrow(some)), ("exp_avg", some), ("exp_avg_sq", some)):
            if is_distributed(stage):
                size_bytes = 4 * ceil_div(elements(of), ranks)
                found.append(
                    Term(OPTIMIZER_STATES, f"{kind} of {name}", size_bytes, "elements/ranks*4", _OPTIMIZER)
                )
            else:
                found += [
                    Term(
                        OPTIMIZER_STATES, f"{kind} of {t.name}", 4 * t.elements, "elements*4", _OPTIMIZER
                    ).times(t.count)
                    for t in of
                ]
    return [term for term in found if term.bytes]


def state_ranks(stage: Stage, *, is_expert: bool) -> int:
    """Over how many ranks the distributed optimizer shards its states."""
    instances = sizes_of(stage).options.distributed_optimizer_instances
    return max(1, shard_ranks(stage.job, is_expert=is_expert) // instances)


def _narrow(tensors: Sequence[LocalTensor]) -> list[LocalTensor]:
    return [tensor for tensor in tensors if tensor.number_type in ("bf16", "fp16", "fp8")]


def _buffers(tensors: Iterable[LocalTensor]) -> list[tuple[str, list[LocalTensor]]]:
    """Dense parameters and experts have a buffer each: their data-parallel ranks differ."""
    all_of_them = list(tensors)
    experts = [tensor for tensor in all_of_them if tensor.place == "expert"]
    dense = [tensor for tensor in all_of_them if tensor.place != "expert"]
    return [(name, some) for name, some in (("parameters", dense), ("experts", experts)) if some]


def elements(tensors: Iterable[LocalTensor]) -> int:
    """Of all of them together."""
    return sum(tensor.elements * tensor.count for tensor in tensors)


def _inputs(sizes: MegatronSizes, stage: Stage) -> list[Term]:
    """The micro-batch on stages that read it; the mask is one byte an entry, for each sequence."""
    source = "megatron/training/utils get_batch_on_this_tp_rank"
    if not (stage.has_embedding or stage.has_head):
        return []
    rows = sizes.tokens
    found = [
        Term(
            INPUTS, "labels and loss mask", bytes_for(rows, "int64") + bytes_for(rows, "fp32"), source=source
        )
    ]
    if sizes.options.create_attention_mask:
        whole = sizes.job.sequence
        mask = sizes.micro_batch * sizes.sequence * whole
        found.append(Term(INPUTS, "attention mask", mask, "b*s*s", source))
    return found


def _lasting_buffers(sizes: MegatronSizes, stage: Stage) -> list[Term]:
    """The local layers' ``GlobalMemoryBuffer``: one tensor a name, made once and used by all layers."""
    found = [_gathered_experts(sizes, stage)] if stage.groups else []
    if sizes.has_te or not stage.groups:
        return [term for term in found if term.bytes]
    heads = max(sizes.split(layer.attention.heads) for layer, _ in stage.groups)
    wanted = sizes.micro_batch * heads * sizes.sequence * sizes.sequence
    gathered = sizes.tokens * sizes.hidden if sizes.gathered(sizes.hidden) else 0
    size_bytes = bytes_for(max(wanted, gathered), sizes.compute)
    size_bytes = max(size_bytes, found[0].bytes)  # one name, one tensor: as large as was ever asked for
    return [Term(BUFFERS, "global memory buffer", size_bytes, "b*a/t*s*s*2", _GLOBAL_BUFFER)]


def _gathered_experts(sizes: MegatronSizes, stage: Stage) -> Term:
    """The tokens of all ranks that share experts, where they are all gathered."""
    blocks = [layer.feed_forward for layer, _ in stage.groups if isinstance(layer.feed_forward, Experts)]
    gathers = blocks and sizes.options.token_dispatcher == "allgather"
    rows = max(
        (own.gathered for own in (spread(sizes, block) for block in blocks) if own.parts > 1), default=0
    )
    size_bytes = bytes_for(rows * sizes.hidden, sizes.compute) if gathers else 0
    return Term(BUFFERS, "global memory buffer", size_bytes, "s*b*tp*ep*h*2", _GLOBAL_BUFFER)


def _stand_ins(sizes: MegatronSizes, tensors: Sequence[LocalTensor]) -> list[Term]:
    """Stand-ins for gradients that products have added into ``main_grad``: autograd's hooks want a tensor.

    ``get_dummy_wgrad`` keeps one for each shape. Experts of one shape share theirs; the embedding has its
    real one.
    """
    if not sizes.options.gradient_accumulation_fusion:
        return []
    is_tied = sizes.job.model.tied
    shapes = dict.fromkeys(
        tensor.shape
        for tensor in tensors
        if len(tensor.shape) == 2
        and (tensor.place not in _LOOKED_UP or (is_tied and tensor.place == "embedding"))
    )
    return [
        Term(BUFFERS, "stand-ins for gradients", bytes_for(prod(shape), sizes.compute), "in*out*2", _TE_BASE)
        for shape in shapes
    ]


def _workspaces(sizes: MegatronSizes, stage: Stage) -> list[Term]:
    """cuBLAS's of the forward's and of the backward's thread; Transformer Engine has a separate one.

    It is 32 MiB on cards from Hopper on, 4 MiB before (``get_cublas_workspace_size_bytes``).
    """
    gpu = find_gpu(sizes.job.gpu) if sizes.job.gpu else None
    capability = gpu.capability if gpu is not None else (9, 0)
    one = sizes.options.cublas_workspace_bytes
    if one is None:
        one = cublas_workspace_bytes(capability, (2, 13))
    found = [
        Term(
            WORKSPACES,
            "cuBLAS workspaces",
            2 * one,
            "2 threads",
            "aten/src/ATen/cuda/CublasHandlePool.cpp",
            2,
        )
    ]
    has_experts = any(isinstance(layer.feed_forward, Experts) for layer, _ in stage.groups)
    if sizes.has_te or has_experts:  # the router's product is its in any case (moe_utils.py)
        own = 32 * MIB if capability >= (9, 0) else 4 * MIB
        found.append(Term(WORKSPACES, "Transformer Engine's workspace", own, source=_TE_BASE))
        if has_experts and sizes.options.grouped_gemm:
            found.append(
                Term(
                    WORKSPACES,
                    "grouped products' workspaces",
                    own * _GROUPED_STREAMS,
                    "4 streams",
                    _TE_BASE,
                    _GROUPED_STREAMS,
                )
            )
    return found


def step_temporaries(stage: Stage, tensors: Sequence[LocalTensor]) -> tuple[Term, ...]:
    """FusedAdam takes none; gradients that are not fp32 are copied to fp32, this rank's part of them.

    The copies stay until ``zero_grad`` at the beginning of the next step.
    """
    sizes = sizes_of(stage)
    if not sizes.options.gradients_in_16_bits:
        return ()
    found = []
    for name, some in _buffers(t for t in tensors if t.is_trained):
        ranks = state_ranks(stage, is_expert=name == "experts") if is_distributed(stage) else 1
        size_bytes = 4 * ceil_div(elements(some), ranks)
        found.append(
            Term(TEMPORARIES, f"fp32 gradients of {name}", size_bytes, "elements/ranks*4", _OPTIMIZER)
        )
    return tuple(found)
