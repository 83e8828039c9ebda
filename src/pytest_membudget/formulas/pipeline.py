"""Which ranks run which layers, and how many micro-batches they hold: a job's pipeline stages.

Ranks are numbered as torchtitan's meshes and Megatron's ``tp-cp-ep-dp-pp`` order number them: tensor-parallel
ranks are neighbours, pipeline stages are furthest apart. Ranks of one stage are identical except for what
sharding leaves to the last ones (``torch.chunk`` gives the first ones most), so a stage's first rank
represents it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ..errors import UsageMistake
from .job import Job
from .megatron_options import MegatronOptions
from .model import Layer
from .stage import Chunk, Stage

_Groups = tuple[tuple[Layer, int], ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one virtual stage runs: layers ``first`` to before ``last``."""

    first: int
    last: int
    has_embedding: bool
    has_head: bool


def stages_of(job: Job) -> tuple[Stage, ...]:
    """The stages of ``job`` in pipeline order, each for all ranks that run it.

    Raises ``UsageMistake`` where the layers cannot be laid out as the framework would.
    """
    degrees = job.degrees
    pipeline, virtual = degrees.pipeline_parallel_degree, _virtual(job)
    parts = _parts(job, pipeline * virtual)
    ranks = degrees.gpus // pipeline
    return tuple(_stage(job, parts, number, ranks) for number in range(pipeline))


def _stage(job: Job, parts: tuple[_Part, ...], number: int, ranks: int) -> Stage:
    pipeline = job.degrees.pipeline_parallel_degree
    in_flight = chunks_in_flight(job, number)
    chunks = tuple(
        Chunk(
            groups=_between(job.model.decoder.groups, part.first, part.last),
            first_layer=part.first,
            has_embedding=part.has_embedding,
            has_head=part.has_head,
            in_flight=held,
        )
        for part, held in zip(parts[number::pipeline], in_flight, strict=True)
    )
    return Stage(
        job=job,
        rank=number * ranks,
        ranks=ranks,
        groups=_merged(chunks),
        has_embedding=any(chunk.has_embedding for chunk in chunks),
        has_head=any(chunk.has_head for chunk in chunks),
        in_flight=max(in_flight),
        pipeline_rank=number,
        chunks=chunks,
    )


def chunks_in_flight(job: Job, number: int) -> tuple[int, ...]:
    """Of each model chunk of stage ``number``, the forwards that have run when its first backward begins.

    ``GPipe``: all. ``1F1B``: a stage runs ahead by as many as there are stages behind it, then one more.
    ``Interleaved1F1B``: Megatron's warm-up of ``2 * (stages behind) + (chunks - 1) * group`` chunk forwards
    (get_pp_rank_microbatches, megatron/core/pipeline_parallel/schedules.py; torch.distributed.pipelining's
    ScheduleInterleaved1F1B has the same), in its order: groups of micro-batches chunk by chunk. The one more
    that ``overlap_moe_expert_parallel_comm`` runs ahead takes turns with the first backward, layer by layer.
    """
    degrees, micro_batches = job.degrees, job.accumulation
    pipeline, virtual = degrees.pipeline_parallel_degree, _virtual(job)
    if pipeline == 1:
        return (1,)
    if degrees.pipeline_parallel_schedule == "GPipe":
        return (micro_batches,) * virtual
    if virtual == 1:
        return (min(pipeline - number, micro_batches),)
    forwards = min(_interleaved_warmup(job, number) + 1, micro_batches * virtual)
    return _by_chunk(forwards, _group(job), micro_batches, virtual)


def interleaved_states(job: Job, number: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """For stage ``number`` with the interleaved schedule: which chunk runs, and what each chunk holds
    meanwhile.

    Of all forwards and backwards of a step, in the schedule's order; identical ones once. The micro-batch
    that runs is not among those held.
    """
    degrees = job.degrees
    pipeline, virtual = degrees.pipeline_parallel_degree, _virtual(job)
    group = _group(job)
    micro_batches = min(job.accumulation, 4 * pipeline + 2 * group)  # from there on it repeats
    table = [
        chunk
        for start in range(0, micro_batches, group)
        for chunk in range(virtual)
        for _ in range(start, min(start + group, micro_batches))
    ]
    warmup = min(_interleaved_warmup(job, number), len(table))
    counts = [0] * virtual
    found: dict[tuple[int, tuple[int, ...]], None] = {}
    for step in range(len(table) + warmup):
        if step < len(table):
            found[table[step], tuple(counts)] = None
            counts[table[step]] += 1
        if step >= warmup:
            chunk = virtual - 1 - table[step - warmup]
            counts[chunk] -= 1
            found[chunk, tuple(counts)] = None
    return tuple(found)


def _group(job: Job) -> int:
    """Micro-batches that go through one chunk before the next one's turn."""
    options = job.megatron or MegatronOptions()
    return min(options.microbatch_group_size or job.degrees.pipeline_parallel_degree, job.accumulation)


def _interleaved_warmup(job: Job, number: int) -> int:
    pipeline = job.degrees.pipeline_parallel_degree
    return 2 * (pipeline - number - 1) + (_virtual(job) - 1) * _group(job)


def _by_chunk(forwards: int, group: int, micro_batches: int, chunks: int) -> tuple[int, ...]:
    """How the first ``forwards`` chunk forwards fall on the chunks."""
    counts = [0] * chunks
    done = 0
    while forwards:
        size = min(group, micro_batches - done)
        for chunk in range(chunks):
            now = min(size, forwards)
            counts[chunk] += now
            forwards -= now
        done += size
    return tuple(counts)


def _virtual(job: Job) -> int:
    degrees = job.degrees
    return degrees.virtual_stages if degrees.pipeline_parallel_degree > 1 else 1


def _parts(job: Job, count: int) -> tuple[_Part, ...]:
    if count == 1:
        return (_Part(0, job.model.decoder.layer_count, has_embedding=True, has_head=True),)
    if job.model.encoder is not None:
        raise UsageMistake("pipeline stages of an encoder-decoder model are not known; write a degree of 1")
    options = job.megatron or MegatronOptions()
    if job.implementation != "megatron":
        sizes = _torchtitan_sizes(job.model.decoder.layer_count, count)
    elif options.layout is not None:
        return _laid_out(job, options.layout, count)
    else:
        sizes = _megatron_sizes(job, options, count)
    ends = list(accumulate(sizes))
    return tuple(
        _Part(end - size, end, has_embedding=number == 0, has_head=number == count - 1)
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
    )


def _torchtitan_sizes(layers: int, count: int) -> list[int]:
    """Embedding and head count as a layer each; the first stages get what is over.

    ``generate_llm_fqn_per_model_part``, torchtitan/distributed/pipeline_parallel.py,
    pytorch/torchtitan b5bcd76c66d0acb1a08b176d9639425bc55e0b2a.
    """
    each, over = divmod(layers + 2, count)
    if each < 1:
        raise UsageMistake(f"{layers} layers do not fill {count} pipeline stages; write fewer")
    sizes = [each + (number < over) for number in range(count)]
    sizes[0] -= 1
    sizes[-1] -= 1
    return sizes


def _megatron_sizes(job: Job, options: MegatronOptions, count: int) -> list[int]:
    """``get_num_layers_to_build``, megatron/core/transformer/transformer_block.py."""
    layers, pipeline = job.model.decoder.layer_count, job.degrees.pipeline_parallel_degree
    virtual = count // pipeline
    first, last = options.num_layers_in_first_stage, options.num_layers_in_last_stage
    extra = int(options.account_for_embedding) + int(options.account_for_loss)
    left = layers + extra - (first or 0) - (last or 0)
    stages = pipeline - (first is not None) - (last is not None)
    if stages and left % stages:
        raise UsageMistake(
            f"{left} layers cannot be shared evenly by {stages} pipeline stages, as Megatron-LM wants; "
            "write a divisor, or decoder-first-pipeline-num-layers and decoder-last-pipeline-num-layers"
        )
    by_rank = [left // stages if stages else 0] * pipeline
    by_rank[0] = by_rank[0] if first is None else first
    by_rank[-1] = by_rank[-1] if last is None else last
    for size in by_rank:
        if size % virtual:
            raise UsageMistake(f"{size} layers of a stage cannot be shared evenly by {virtual} model chunks")
    sizes = [by_rank[number % pipeline] // virtual for number in range(count)]
    sizes[0] -= int(options.account_for_embedding)
    sizes[-1] -= int(options.account_for_loss)
    return sizes


def _laid_out(job: Job, layout: tuple[tuple[str, ...], ...], count: int) -> tuple[_Part, ...]:
    layers = job.model.decoder.layer_count
    sizes = [stage.count("t") for stage in layout]
    if len(layout) != count or sum(sizes) != layers:
        raise UsageMistake(
            f"the pipeline layout has {len(layout)} stages and {sum(sizes)} layers; "
            f"{count} stages and {layers} layers are asked for"
        )
    if any("m" in stage and "L" not in stage for stage in layout):
        raise UsageMistake(
            "multi-token prediction on a stage without the loss is not computed; write m and L in one stage"
        )
    ends = list(accumulate(sizes))
    return tuple(
        _Part(end - size, end, has_embedding="E" in stage, has_head="L" in stage)
        for stage, size, end in zip(layout, sizes, ends, strict=True)
    )


def _between(groups: _Groups, first: int, last: int) -> _Groups:
    """Layers ``first`` to before ``last`` of ``groups``."""
    found = []
    start = 0
    for layer, count in groups:
        here = min(start + count, last) - max(start, first)
        if here > 0:
            found.append((layer, here))
        start += count
    return tuple(found)


def _merged(chunks: tuple[Chunk, ...]) -> _Groups:
    """All chunks' groups, identical neighbours together."""
    merged: list[tuple[Layer, int]] = []
    for chunk in chunks:
        for layer, count in chunk.groups:
            if merged and merged[-1][0] == layer:
                merged[-1] = (layer, merged[-1][1] + count)
            else:
                merged.append((layer, count))
    return tuple(merged)
