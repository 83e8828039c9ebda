"""The moments of a step at which most may be allocated, component by component, and what lies on the host."""

from dataclasses import dataclass
from typing import Final

from ..components import (
    ACTIVATIONS,
    COLLECTIVES,
    FROZEN_PARAMETERS,
    GRADIENTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    TEMPORARIES,
    WORKSPACES,
)
from ..scenarios.job import Job
from .activations import Kept, element_type, kept_of, tokens_of
from .decoder import Tensor, parameter_count
from .generation import generated
from .model_states import TYPE_BYTES, States, gradient_type, states_of
from .moments import WORKSPACE_BYTES, Components, Moment
from .ranks import Rank, end_parts, layer_parts, parts_of
from .sources import decoder_of

#: ``reduce_bucket_size`` of DeepSpeed's ZeRO 2 (0.18): numbers.
_REDUCE_BUCKET: Final = 500_000_000
#: Layers whose gathered parameters are there at once: the one that runs and the next (FSDP2's prefetching).
_GATHERED_LAYERS: Final = 2


@dataclass(frozen=True, slots=True)
class RankFigure:
    """The figure of the ranks of one pipeline stage."""

    rank: int
    """The first of them."""
    ranks: int
    moments: tuple[Moment, ...]
    host: Components
    """What each of them has in host memory, by component."""

    @property
    def peak(self) -> Moment:
        """The moment at which most is allocated."""
        return max(self.moments, key=lambda moment: moment.bytes)


def figures_of(job: Job) -> tuple[RankFigure, ...]:
    """The figure of each pipeline stage of ``job``. Raises ``UsageMistake`` where there is no arithmetic for
    it.
    """
    decoder = decoder_of(job.model)
    stages = range(job.degrees.pipeline_parallel_degree)
    return tuple(_figure(Rank(job, decoder, stage)) for stage in stages)


def _figure(rank: Rank) -> RankFigure:
    states = states_of(rank)
    moments = (generated if rank.job.generation is not None else _trained)(rank, states)
    return RankFigure(rank.stage * rank.ranks, rank.ranks, moments, _host(rank, states))


def _trained(rank: Rank, states: States) -> tuple[Moment, ...]:
    """At the loss all activations are there, at backward's end all gradients, at the step its temporaries."""
    held, kept = _held(rank, states), _kept_bytes(rank)
    gathered = _gathered_bytes(rank)
    gradients = 0 if _is_offloaded(rank) else states.gradients
    ready = states.largest_gradient if rank.job.optimizer.in_backward else gradients
    early = ready if rank.is_megatron or rank.job.accumulation > 1 else 0
    buffers = _buffer_bytes(rank, states)
    first = {**held, GRADIENTS: early, ACTIVATIONS: kept + _cast_bytes(rank), COLLECTIVES: gathered + buffers}
    loss = {**first, TEMPORARIES: _loss_bytes(rank) + _teacher_bytes(rank)[1]}
    backward = {
        **first,
        GRADIENTS: max(early, _head_gradient_bytes(rank, states)),
        TEMPORARIES: _recomputed_bytes(rank),
        COLLECTIVES: gathered + buffers + _whole_gradient_bytes(rank),
    }
    last = {**backward, GRADIENTS: ready, ACTIVATIONS: _cast_bytes(rank)}
    step = {**held, GRADIENTS: ready, COLLECTIVES: buffers}
    step[TEMPORARIES] = 0 if _is_offloaded(rank) else states.step_temporaries
    return (
        Moment("the loss", loss),
        Moment("the beginning of backward", backward),
        Moment("the end of backward", last),
        Moment("the optimizer's step", step),
    )


def _held(rank: Rank, states: States) -> dict[str, float]:
    """What is there throughout a step."""
    is_away = _is_offloaded(rank)
    teacher = _teacher_bytes(rank)[0]
    return {
        PARAMETERS: 0 if is_away else states.parameters,
        FROZEN_PARAMETERS: (0 if is_away else states.frozen) + teacher,
        OPTIMIZER_STATES: 0 if is_away or rank.job.optimizer.is_paged else states.optimizer,
        WORKSPACES: 2 * WORKSPACE_BYTES,
    }


def _is_offloaded(rank: Rank) -> bool:
    return "parameters" in rank.job.offload


def _kept_bytes(rank: Rank) -> float:
    """Activations of all micro-batches in flight, after recomputation and offload; and the ends' own."""
    found, offloads = 0.0, "activations" in rank.job.offload
    for layer, number in rank.layers.items():
        one = _kept_of_layer(kept_of(layer, rank), rank.job)
        found += one * (min(number, 2) if offloads else number)  # one that runs, and one on its way
    size, rows = element_type(rank), rank.row_degree
    if rank.is_first and rank.decoder.shape.dropout:
        found += tokens_of(rank) * rank.decoder.shape.hidden / rows
    ends = 2 * size * tokens_of(rank) * rank.decoder.shape.hidden / rows if rank.is_last else 0
    return found * rank.in_flight + ends


def _kept_of_layer(kept: Kept, job: Job) -> float:
    mode, whole = job.checkpointing.mode, kept.whole + kept.scores
    if mode == "full":
        return kept.entry
    if mode == "per_operator":
        return min(kept.costly, whole)
    if mode == "selective" and job.model.source == "megatron":  # attention's core alone
        return kept.whole
    if mode == "selective":
        return (kept.entry + (job.checkpointing.every - 1) * whole) / job.checkpointing.every
    return whole


def _recomputed_bytes(rank: Rank) -> float:
    """A layer's activations that backward computes again."""
    found = 0.0
    for layer in rank.layers:
        kept = kept_of(layer, rank)
        found = max(found, kept.whole + kept.scores - _kept_of_layer(kept, rank.job))
    return found


def _gathered_bytes(rank: Rank) -> float:
    """Whole parameters of the layers that run and of the ends, if they are shared; a dequantised linear."""
    adapter, found, size = rank.job.adapter, 0.0, element_type(rank)
    if adapter is not None and adapter.base is not None:
        linears = [part.rows * part.columns for part in parts_of(rank) if part.is_linear]
        found += size * max(linears, default=0)
    if not _shares_parameters(rank):
        return found
    ends = size * sum(part.elements for part in end_parts(rank) if part.sharing > 1)
    # between the micro-batches of a pipeline (torch.distributed.pipelining, 2.13) nothing reshards or reduces
    is_pipeline = rank.job.degrees.pipeline_parallel_degree > 1
    if is_pipeline or not rank.job.data_parallel.reshards_after_forward:
        return found + ends + size * sum(part.elements for part in _shared_layers(rank))
    return found + ends + min(_GATHERED_LAYERS, sum(rank.layers.values())) * size * _layer_elements(rank)


def _shared_layers(rank: Rank) -> list[Tensor]:
    return [p for layer, n in rank.layers.items() for p in layer_parts(rank, layer, n) if p.sharing > 1]


def _shares_parameters(rank: Rank) -> bool:
    return rank.job.data_parallel.kind in ("fsdp2", "zero3") and not rank.is_megatron


def _layer_elements(rank: Rank) -> float:
    """Numbers of the largest layer that ranks share."""
    sizes = [sum(p.elements for p in layer_parts(rank, layer) if p.sharing > 1) for layer in rank.layers]
    return max(sizes, default=0)


def _whole_gradient_bytes(rank: Rank) -> float:
    """A layer's whole gradients, and their copy in the type that they are reduced in; in a pipeline all
    layers', which add up over micro-batches.
    """
    if not _shares_parameters(rank) or rank.job.adapter is not None:
        return 0
    precision = rank.job.precision
    reduced = TYPE_BYTES[precision.reduce or precision.compute_type]
    if rank.job.degrees.pipeline_parallel_degree > 1 and rank.job.accumulation > 1:
        return reduced * sum(part.elements for part in _shared_layers(rank))
    return _layer_elements(rank) * (element_type(rank) + reduced)


def _buffer_bytes(rank: Rank, states: States) -> float:
    """DDP's buckets are another copy of the gradients; ZeRO 2 reduces them by the bucket."""
    if rank.is_megatron or rank.ranks == rank.job.degrees.tensor_parallel_degree:
        return 0
    kind = rank.job.data_parallel.kind
    if kind == "zero2":
        return gradient_type(rank) * min(_REDUCE_BUCKET, states.trained * rank.ranks)
    return states.gradients if kind in ("ddp", "zero1") else 0


def _head_gradient_bytes(rank: Rank, states: States) -> float:
    if not rank.is_last or rank.job.adapter is not None or _is_offloaded(rank):
        return 0
    names = ("embedding",) if rank.decoder.shape.tied else ("head",)
    head = sum(part.elements for part in end_parts(rank) if part.name in names)
    return min(states.gradients, gradient_type(rank) * head)


def _loss_bytes(rank: Rank) -> float:
    """The logits, log-softmax in fp32, its gradient and the logits', at the loss's backward.

    Megatron-LM's parallel loss works in place: the logits and their fp32 copy (core_v0.13,
    tensor_parallel/cross_entropy.py); so does torch's ``loss_parallel``, which keeps each rank's part.
    """
    if not rank.is_last:
        return 0
    tensor, loss = rank.job.degrees.tensor_parallel_degree, rank.job.loss
    logits = tokens_of(rank) * rank.decoder.shape.vocab / tensor
    if rank.is_megatron:
        return logits * (2 + 4)
    return logits * (element_type(rank) + 3 * 4) / (loss.chunks if loss.kind == "chunked" else 1)


def _teacher_bytes(rank: Rank) -> tuple[float, float]:
    """A teacher's parameters; its logits and their softmax in fp32, which live until the loss is done."""
    job = rank.job
    if job.teacher is None:
        return 0, 0
    teacher = decoder_of(job.teacher)
    size = TYPE_BYTES[job.teacher_type or job.precision.compute_type]
    degrees = job.degrees
    is_shared = _shares_parameters(rank)
    shards = degrees.data_parallel_shard_degree * degrees.context_parallel_degree if is_shared else 1
    layer = sum(part.elements for part in layer_parts(Rank(job, teacher, 0), teacher.layers[-1]))
    gathered = _GATHERED_LAYERS * size * layer if shards > 1 else 0
    logits = tokens_of(rank) * teacher.shape.vocab * (size + 4)
    chunks = job.loss.chunks if job.loss.kind == "chunked" else 1
    whole = size * parameter_count(teacher) / (shards * degrees.tensor_parallel_degree)
    return whole + gathered, logits / chunks


def _cast_bytes(rank: Rank) -> float:
    """Autocast's copies of the linears' weights, which backward uses."""
    precision = rank.job.precision
    if precision.policy != "autocast" or precision.compute_type == precision.parameters:
        return 0
    return element_type(rank) * sum(part.elements for part in parts_of(rank) if part.is_linear)


def _host(rank: Rank, states: States) -> Components:
    """What offload and paged optimizers keep in host memory."""
    found: dict[str, float] = {}
    if _is_offloaded(rank):
        found[PARAMETERS], found[GRADIENTS] = states.parameters + states.frozen, states.gradients
        # on the CPU torch takes foreach where it is written alone (2.13, _default_to_fused_or_foreach)
        is_foreach = rank.job.optimizer.implementation == "foreach"
        found[TEMPORARIES] = states.step_temporaries if is_foreach else 0
    if _is_offloaded(rank) or rank.job.optimizer.is_paged:
        found[OPTIMIZER_STATES] = states.optimizer
    if "activations" in rank.job.offload and rank.job.generation is None:
        whole = sum(n * _kept_of_layer(kept_of(layer, rank), rank.job) for layer, n in rank.layers.items())
        found[ACTIVATIONS] = whole * rank.in_flight
    return found
