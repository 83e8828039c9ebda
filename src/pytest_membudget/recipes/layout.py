"""A decoder on a mesh of GPUs: tensor parallel, checkpoints, compiled layers, FSDP2 or DDP."""

import functools
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from ..scenarios.job import Checkpointing, Job
from .program import TYPES, Build, Decoder

_ATEN = torch.ops.aten
#: Whose results stay: products and attention, as torchtitan's list (``_op_sac_save_list``,
#: torchtitan/distributed/activation_checkpoint.py, v0.2.0), in which every second product is computed again.
_KEPT = frozenset(
    {
        _ATEN.mm.default,
        _ATEN._scaled_dot_product_efficient_attention.default,
        _ATEN._scaled_dot_product_flash_attention.default,
        _ATEN._scaled_dot_product_cudnn_attention.default,
    }
)


def built(build: Build, job: Job, mesh: DeviceMesh | None) -> Decoder:
    """A decoder with its layers as the job has them; on meta where it is still to be sharded or split."""
    is_cut = mesh is not None and job.data_parallel.kind == "fsdp2"
    with torch.device("meta" if is_cut else "cuda"):
        return build()


def laid_out(decoder: Decoder, job: Job, mesh: DeviceMesh | None) -> None:
    """Split each layer of ``decoder``, checkpoint it and compile it, in this order, torchtitan's."""
    degrees = job.degrees
    if mesh is not None and degrees.tensor_parallel_degree > 1:
        parallelize_module(decoder.model, mesh["tensor"], decoder.tensor_plan(degrees.sequence_parallel))
    _checkpoint_layers(decoder, job.checkpointing)
    if job.compiled:
        for layer in decoder.layers:
            layer.compile()


def shared_out(root: nn.Module, decoder: Decoder, job: Job, mesh: DeviceMesh | None) -> nn.Module:
    """``root``, which has ``decoder``, over the data-parallel ranks, and on the GPU."""
    if mesh is None:
        return root
    if job.data_parallel.kind != "fsdp2":
        return DistributedDataParallel(root, process_group=mesh.get_group("replicate"))
    degrees = job.degrees
    replicates, shards = degrees.data_parallel_replicate_degree, degrees.data_parallel_shard_degree
    if replicates * shards * degrees.context_parallel_degree > 1 or job.precision.policy == "fsdp":
        options = _fsdp_options(job, mesh)
        for layer in decoder.layers:
            fully_shard(layer, **options)
        fully_shard(root, **options)
    root.to_empty(device="cpu" if "parameters" in job.offload else "cuda")
    if "parameters" in job.offload:
        for name, buffer in root.named_buffers():
            owner, _, own = name.rpartition(".")
            root.get_submodule(owner).register_buffer(own, buffer.cuda(), persistent=False)
    return root


def _fsdp_options(job: Job, mesh: DeviceMesh) -> dict[str, Any]:
    precision = job.precision
    mixed = MixedPrecisionPolicy()
    if precision.policy == "fsdp":
        compute = TYPES[precision.compute_type]
        mixed = MixedPrecisionPolicy(compute, TYPES[precision.reduce] if precision.reduce else compute)
    replicates = job.degrees.data_parallel_replicate_degree > 1
    return {
        "mesh": mesh["replicate", "shard"] if replicates else mesh["shard"],
        "mp_policy": mixed,
        "reshard_after_forward": job.data_parallel.reshards_after_forward,
        "offload_policy": CPUOffloadPolicy() if "parameters" in job.offload else OffloadPolicy(),
    }


def _checkpoint_layers(decoder: Decoder, checkpointing: Checkpointing) -> None:
    """Make backward compute ``decoder``'s layers again as ``checkpointing`` says."""
    mode = checkpointing.mode
    if mode == "full":
        decoder.recompute_layers()
    elif mode != "none":
        for number, layer in enumerate(decoder.layers):
            options: dict[str, Any] = {}
            if mode == "per_operator":
                options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, _policy())
            if options or number % checkpointing.every == 0:
                decoder.layers[number] = checkpoint_wrapper(layer, preserve_rng_state=False, **options)


def _policy() -> Any:
    """A layer's policy: its forward and its recomputation count products the same way."""
    products = {False: 0, True: 0}

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if operator == _ATEN.mm.default:
            products[context.is_recompute] += 1
            if products[context.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if operator in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE

    return policy
