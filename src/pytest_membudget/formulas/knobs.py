"""When a job does not fit: what would make it fit, each with its figure, the cheapest in speed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .job import Adapter, Checkpointing, Job

#: The peak of the worst rank of a job, in bytes.
PeakOf = Callable[[Job], int]
#: Sequences that are tried at most.
_MOST_SEQUENCES = 2**20
#: Pieces a sequence is cut into for the loss: torchtune's CEWithChunkedOutputLoss (num_output_chunks=8, 0.6).
_CHUNKS = 8
#: Optimizers of torch.optim with ``fused=`` (2.13).
_HAVE_FUSED = ("adam", "adamw", "sgd", "adagrad")
#: A common rank, on all linear layers but the head (QLoRA, arXiv 2305.14314, section 4).
_RANK = 16
_TARGETS = ("all-linear",)


_ALL = "all of them"


@dataclass(frozen=True, slots=True)
class Knob:
    """One change of a job, and what the job takes then."""

    name: str
    cost: str
    """What it costs, in a few words."""
    peak_bytes: int
    fits: bool


def knobs_for(job: Job, limit_bytes: int, peak_of: PeakOf) -> tuple[Knob, ...]:
    """Every change that lowers ``job``'s peak, the cheapest in speed first.

    Where no single one fits, the last is all that keep what is trained, taken together until they fit.
    """
    now = peak_of(job)
    found = []
    for name, cost, changed in _changes(job):
        peak_bytes = peak_of(changed)
        if peak_bytes < now:
            found.append(Knob(name, cost, peak_bytes, peak_bytes <= limit_bytes))
    if not any(knob.fits for knob in found):
        together = _together(job, limit_bytes, peak_of)
        if together is not None:
            found.append(together)
    return tuple(found)


def largest_micro_batch(job: Job, limit_bytes: int, peak_of: PeakOf) -> int:
    """The most sequences a micro-batch that stay within ``limit_bytes``; 0 if not even one does."""

    def fits(sequences: int) -> bool:
        return peak_of(replace(job, micro_batch=sequences)) <= limit_bytes

    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= _MOST_SEQUENCES and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _together(job: Job, limit_bytes: int, peak_of: PeakOf) -> Knob | None:
    names: list[str] = []
    changed, best = job, peak_of(job)
    for change in _KEEPING:
        for name, _, candidate in change(changed):
            peak_bytes = peak_of(candidate)
            if peak_bytes < best:
                changed, best = candidate, peak_bytes
                names.append(name)
            if best <= limit_bytes:
                return Knob(" + ".join(names), _ALL, best, fits=True)
    return None


Change = tuple[str, str, Job]


def _changes(job: Job) -> Iterator[Change]:
    for change in (*_KEEPING, _adapter):
        yield from change(job)


def _attention(job: Job) -> Iterator[Change]:
    if job.attention in ("math", "unfused"):
        yield "flash attention", "faster", replace(job, attention="flash")


def _fused_optimizer(job: Job) -> Iterator[Change]:
    optimizer = job.optimizer
    if job.task != "train" or optimizer.in_backward or optimizer.name not in _HAVE_FUSED:
        return
    if optimizer.library == "torch" and optimizer.implementation in (None, "foreach"):
        yield "fused=True", "faster", replace(job, optimizer=replace(optimizer, implementation="fused"))


def _chunked_loss(job: Job) -> Iterator[Change]:
    if job.task == "train" and job.loss.kind == "full" and job.model.vocab:
        changed = replace(job, loss=replace(job.loss, kind="chunked", chunks=_CHUNKS, holds_logits=False))
        yield f"loss in {_CHUNKS} chunks", "about nothing", changed


def _small_states(job: Job) -> Iterator[Change]:
    optimizer = job.optimizer
    if job.task == "train" and optimizer.name in ("adam", "adamw") and optimizer.bits not in (4, 8):
        changed = replace(optimizer, library="bitsandbytes", bits=8, amsgrad=False, implementation=None)
        yield "8-bit optimizer states", "little", replace(job, optimizer=changed)


def _in_backward(job: Job) -> Iterator[Change]:
    optimizer = job.optimizer
    if job.task == "train" and not optimizer.in_backward and job.accumulation == 1:
        changed = replace(job, optimizer=replace(optimizer, in_backward=True, clips_gradients=False))
        yield "optimizer step in backward", "little; no accumulation, no clipping", changed


def _smaller_micro_batch(job: Job) -> Iterator[Change]:
    if job.micro_batch > 1 and not job.optimizer.in_backward:
        half = job.micro_batch // 2
        times = -(-job.micro_batch // half)
        changed = replace(job, micro_batch=half, accumulation=job.accumulation * times)
        yield f"micro-batch {half}, accumulated {changed.accumulation} times", "some", changed


def _checkpointing(job: Job) -> Iterator[Change]:
    if job.task != "train":
        return
    if job.checkpointing.mode == "none" and job.implementation != "transformers":
        changed = replace(job, checkpointing=Checkpointing("selective"))
        yield "selective activation checkpointing", "a few percent", changed
    if job.checkpointing.mode != "full":
        yield (
            "full activation checkpointing",
            "about a third",
            replace(job, checkpointing=Checkpointing("full")),
        )


def _more_shards(job: Job) -> Iterator[Change]:
    degrees = job.degrees
    if job.data_parallel.kind in ("fsdp2", "zero1", "zero2", "zero3") and job.task == "train":
        shards = 2 * degrees.data_parallel_shard_degree
        changed = replace(degrees, data_parallel_shard_degree=shards)
        yield f"{changed.gpus} GPUs", "twice the GPUs", replace(job, degrees=changed)


def _offload(job: Job) -> Iterator[Change]:
    if job.task != "train" or job.optimizer.in_backward:
        return
    if "optimizer_states" not in job.offload:
        everything = frozenset({*job.offload, "parameters", "gradients", "optimizer_states"})
        yield "CPU offload", "slow: over PCIe every step", replace(job, offload=everything)


def _adapter(job: Job) -> Iterator[Change]:
    if job.task == "train" and job.adapter is None and job.implementation == "transformers":
        changed = replace(job, adapter=Adapter(_RANK, _TARGETS))
        yield f"LoRA of rank {_RANK}", "trains the adapters alone", changed


#: Those that train the same parameters, in the order of what they cost in speed.
_KEEPING: tuple[Callable[[Job], Iterator[Change]], ...] = (
    _attention,
    _fused_optimizer,
    _chunked_loss,
    _small_states,
    _in_backward,
    _smaller_micro_batch,
    _checkpointing,
    _more_shards,
    _offload,
)


def lines_of(knobs: tuple[Knob, ...], text_of: Callable[[int], str]) -> list[str]:
    """A line a knob for reports; ``text_of`` writes bytes."""
    width = max((len(knob.name) for knob in knobs if knob.cost != _ALL), default=0)
    lines = []
    for knob in knobs:
        mark = "fits" if knob.fits else "    "
        lines.append(f"  {text_of(knob.peak_bytes):>10}  {mark}  {knob.name:<{width}}  ({knob.cost})")
    return lines
