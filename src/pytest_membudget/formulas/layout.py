"""What each block's parameters are on one rank: which FSDP2 gathers together, and how much that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from .adapters import adapted
from .communication import Group
from .job import Adapter, Job
from .local_tensors import LocalTensor
from .model import Layer, Model, Stack
from .parameter_tensors import Inventory
from .parameters import inventory_of
from .sharding import local_tensors, shard_ranks
from .stage import Stage


@lru_cache(maxsize=256)
def inventory_for(model: Model, adapter: Adapter | None) -> Inventory:
    """The tensors of ``model``, with an adapter's, and the base's frozen."""
    inventory = inventory_of(model)
    return inventory if adapter is None else adapted(inventory, model, adapter)


def layer_group(stage: Stage, layer: Layer) -> Group:
    """One layer of ``stage`` as FSDP2 gathers it."""
    return group_of(layer_tensors(stage, layer), stage.job)


def layer_tensors(stage: Stage, layer: Layer) -> list[LocalTensor]:
    """What the rank holds of one layer."""
    job = stage.job
    one = ((layer, 1),)
    model = replace(job.model, decoder=Stack(one, job.model.hidden, final_norm=None), encoder=None)
    alone = Stage(job, 0, 1, one, has_embedding=False, has_head=False)
    return [t for t in local_tensors(alone, inventory_for(model, job.adapter)) if t.layer == "layers"]


def group_of(tensors: Iterable[LocalTensor], job: Job, *, reshards: bool | None = None) -> Group:
    """``tensors`` as FSDP2 gathers them, each once."""
    some = [(tensor, _padded(tensor, job)) for tensor in tensors]
    precision = job.precision
    # added to those that are there, used up at once, or sent to the host
    leaves_none = job.accumulation > 1 or job.optimizer.in_backward or "gradients" in job.offload
    compute = precision.compute_type if precision.policy == "fsdp" else precision.parameters
    return Group(
        whole_elements=sum(padded * tensor.count for tensor, padded in some),
        reduced_elements=sum(padded * tensor.count for tensor, padded in some if tensor.is_trained),
        shard_elements=sum(tensor.elements * tensor.count for tensor, _ in some if tensor.is_trained),
        compute_type=compute,
        reduce_type=precision.reduce or precision.compute_type,
        gradient_type=precision.parameters,
        reshards=job.data_parallel.reshards_after_forward if reshards is None else reshards,
        # without a separate policy, or from the host, a part is gathered as it is
        ranks=shard_ranks(job) if precision.policy == "fsdp" and "parameters" not in job.offload else 0,
        each_whole=tuple((padded, tensor.count) for tensor, padded in some),
        accumulates=leaves_none,
    )


def _padded(tensor: LocalTensor, job: Job) -> int:
    """Elements of the gathered tensor: this rank's, which is the largest part, times the ranks."""
    return prod(tensor.shape) * shard_ranks(job, is_expert=tensor.place == "expert")


def root_tensors(tensors: Sequence[LocalTensor]) -> list[LocalTensor]:
    """Those of embedding and head, which FSDP2's root holds where they are not separate groups."""
    return [tensor for tensor in tensors if tensor.layer in ("embedding", "head")]
