"""What a rank holds of each parameter tensor: tensor, expert, pipeline and data parallelism.

``whole_shape`` of a local tensor is what is left after tensor and expert parallelism (what is gathered for
computing), ``shape`` what data parallelism leaves of it on the first rank, which has the largest part.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from .job import Job
from .local_tensors import LocalTensor
from .parameter_tensors import Inventory, LayerTensors, ParameterTensor
from .stage import Chunk, Stage


def local_tensors(stage: Stage, inventory: Inventory) -> tuple[LocalTensor, ...]:
    """Of each kind of tensor of ``inventory``, this rank's part; kinds that its stage has none of are left
    out.

    A tied head is the embedding's weight; with pipeline stages the last one has a copy, as it has
    for layers that predict tokens further on.
    """
    job = stage.job
    found: list[LocalTensor] = []
    if stage.has_embedding:
        found += [_local(job, tensor, tensor.count, "embedding") for tensor in inventory.before]
    for tensors, count, name in _layers(stage, inventory):
        found += [_local(job, tensor, tensor.count * count, name) for tensor in tensors.tensors]
    if stage.has_head:
        found += [_local(job, tensor, tensor.count, "head") for tensor in inventory.after]
        if _needs_table(job) and not stage.has_embedding:
            copies = [tensor for tensor in inventory.before if tensor.place == "embedding"]
            found += [_local(job, tensor, tensor.count, "head") for tensor in copies]
    return tuple(tensor for tensor in found if tensor.count)


def _needs_table(job: Job) -> bool:
    """The last stage needs the embedding's table, as its head or for layers that predict further tokens."""
    model = job.model
    return (model.tied and model.has_head) or model.prediction_layers > 0


def _layers(stage: Stage, inventory: Inventory) -> Iterator[tuple[LayerTensors, int, str]]:
    """The stage's layers: tensors of one, how many, and what they are called."""
    chunks = stage.chunks or (Chunk(stage.groups),)
    start = 0
    for run in inventory.layers:
        if run.stack == "encoder":
            yield run, run.count, "encoder.layers"
            continue
        ranges = [(chunk.first_layer, chunk.first_layer + chunk.layer_count) for chunk in chunks]
        count = sum(max(0, min(start + run.count, last) - max(start, first)) for first, last in ranges)
        if count:
            yield run, count, "layers"
        start += run.count


def _local(job: Job, tensor: ParameterTensor, count: int, layer: str) -> LocalTensor:
    whole, count = _after_tensor_parallel(job, tensor, count)
    return LocalTensor(
        name=tensor.name,
        shape=_after_data_parallel(job, whole, tensor),
        place=tensor.place,
        number_type=tensor.number_type or job.precision.parameters,
        count=count,
        is_trained=tensor.is_trained,
        whole_shape=whole,
        layer=layer,
        quantised=tensor.quantised,
    )


def _after_tensor_parallel(job: Job, tensor: ParameterTensor, count: int) -> tuple[tuple[int, ...], int]:
    """The shape on one tensor-parallel rank, and how many there are of it: experts are shared out whole."""
    degrees = job.degrees
    tensor_degree = degrees.tensor_parallel_degree
    shape = tensor.shape
    if tensor.place == "expert":
        tensor_degree = degrees.expert_tensor_parallel_degree or tensor_degree
        if tensor.count > 1:  # a tensor an expert
            count = count // tensor.count * ceil_div(tensor.count, degrees.expert_parallel_degree)
        else:  # all experts in one, the first dimension counts them
            shape = (ceil_div(shape[0], degrees.expert_parallel_degree), *shape[1:])
    if tensor.split_dim is not None and tensor_degree > 1:
        shape = _split(shape, tensor.split_dim, tensor_degree)
    return shape, count


def _after_data_parallel(job: Job, whole: tuple[int, ...], tensor: ParameterTensor) -> tuple[int, ...]:
    """``torch.chunk`` along dimension 0 (fully_shard's Shard(0)): the first rank has the ceiling.

    DDP, ZeRO 1 and 2 and Megatron's DDP leave parameters whole. DeepSpeed's ZeRO 3 flattens a parameter and
    pads it to a multiple of the ranks (deepspeed/runtime/zero/partition_parameters.py).
    """
    ranks = shard_ranks(job, is_expert=tensor.place == "expert")
    if ranks == 1 or not whole:
        return whole
    if job.data_parallel.kind == "fsdp2":
        return (ceil_div(whole[0], ranks), *whole[1:])
    if job.data_parallel.kind == "zero3":
        return (ceil_div(prod(whole), ranks),)
    return whole


def shard_ranks(job: Job, *, is_expert: bool = False) -> int:
    """Over how many ranks data parallelism shards a parameter: replicas (HSDP) do not count.

    Context-parallel ranks shard parameters too (torchtitan's ``fsdp`` mesh, Megatron's ``dp-cp`` groups).
    Experts are sharded over what their own parallelism leaves of those ranks.
    """
    degrees = job.degrees
    ranks = degrees.data_parallel_shard_degree * degrees.context_parallel_degree
    if not is_expert:
        return ranks
    expert_tensor = degrees.expert_tensor_parallel_degree or degrees.tensor_parallel_degree
    of_experts = degrees.expert_parallel_degree * expert_tensor
    return max(1, ranks * degrees.tensor_parallel_degree // of_experts)


def ceil_div(value: int, parts: int) -> int:
    """``value / parts`` rounded up."""
    return -(-value // parts)


def _split(shape: tuple[int, ...], dim: int, parts: int) -> tuple[int, ...]:
    return (*shape[:dim], ceil_div(shape[dim], parts), *shape[dim + 1 :])
