"""When a job does not fit: what would make it fit, each with its figure by formulas, the cheapest in speed
first.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..errors import UsageMistake
from ..scenarios.job import Adapter, Checkpointing, Job
from ..units import gib_text
from .activations import UNFUSED
from .peaks import figures_of

#: Sequences that are tried at most.
_MOST_SEQUENCES: Final = 2**20
#: Optimizers of torch.optim with ``fused=`` (2.13).
_HAVE_FUSED: Final = ("adam", "adamw", "sgd", "adagrad")
#: A common rank, on all linear layers but the head (QLoRA, arXiv:2305.14314, section 4).
_RANK: Final = 16
_SHARED: Final = ("fsdp2", "zero1", "zero2", "zero3")
_ALL: Final = "all of them"
#: A change's name, its cost in a few words, and the job with it.
Change = tuple[str, str, Job]


@dataclass(frozen=True, slots=True)
class Knob:
    """One change of a job, and what the job takes then."""

    name: str
    cost: str
    peak_bytes: int
    fits: bool

    @property
    def line(self) -> str:
        """As reports have it."""
        return (
            f"  {gib_text(self.peak_bytes):>10}  {'fits' if self.fits else '    '}  {self.name} ({self.cost})"
        )


def peak_bytes_of(job: Job) -> int | None:
    """The arithmetic's peak of the fullest rank; None where there is none for the job."""
    try:
        return max(figure.peak.bytes for figure in figures_of(job))
    except UsageMistake:
        return None


def knobs_for(job: Job, limit_bytes: int, run_bytes: int | None = None) -> tuple[Knob, ...]:
    """Every change that lowers the peak of ``job``; where no single one fits, those that keep what is trained
    together, until they fit.

    ``run_bytes``: the figure of a run of the job. What the arithmetic says that a change saves is then taken
    off that; without it the figures are the arithmetic's own. None where there is no arithmetic for the job.
    """
    now = peak_bytes_of(job)
    if now is None:
        return ()
    offset = (run_bytes or now) - now

    def knobs(changes: Iterable[Change]) -> Iterator[Knob]:
        for name, cost, changed in changes:
            peak_bytes = peak_bytes_of(changed)
            if peak_bytes is not None and peak_bytes < now:
                yield Knob(name, cost, peak_bytes + offset, peak_bytes + offset <= limit_bytes)

    found = [*knobs(change for make in (*_KEEPING, _adapter) for change in make(job))]
    if not any(one.fits for one in found):
        found += knobs(_together(job, limit_bytes - offset))
    return tuple(found)


def largest_micro_batch(job: Job, limit_bytes: int) -> int:
    """The most sequences a micro-batch that stay within ``limit_bytes``; 0 if not even one does."""

    def size(sequences: int) -> int:
        return peak_bytes_of(replace(job, micro_batch=sequences)) or sys.maxsize

    return bisect_right(range(1, _MOST_SEQUENCES + 1), limit_bytes, key=size)


def _together(job: Job, limit_bytes: int) -> Iterator[Change]:
    """The changes up to the first with which it fits; none where it does not fit with all of them."""
    names: dict[Callable[[Job], Iterator[Change]], str] = {}  # of full and partial checkpointing the last
    changed, best = job, peak_bytes_of(job)
    for change in _KEEPING:
        for name, _, candidate in change(changed):
            peak_bytes = peak_bytes_of(candidate)
            if best is not None and peak_bytes is not None and peak_bytes < best:
                changed, best = candidate, peak_bytes
                names[change] = name
        if best is not None and best <= limit_bytes:
            yield " + ".join(names.values()), _ALL, changed
            return


def _is_trained(job: Job) -> bool:
    return job.generation is None


def _attention(job: Job) -> Iterator[Change]:
    if job.attention in UNFUSED:
        yield "flash attention", "faster", replace(job, attention="flash")


def _fused_optimizer(job: Job) -> Iterator[Change]:
    optimizer = job.optimizer
    is_plain = optimizer.library == "torch" and optimizer.implementation in (None, "foreach")
    if _is_trained(job) and is_plain and not optimizer.in_backward and optimizer.name in _HAVE_FUSED:
        yield "fused=True", "faster", replace(job, optimizer=replace(optimizer, implementation="fused"))


def _chunked_loss(job: Job) -> Iterator[Change]:
    if _is_trained(job) and job.loss.kind == "full":
        loss = replace(job.loss, kind="chunked")
        yield f"loss in {loss.chunks} chunks", "about nothing", replace(job, loss=loss)


def _small_states(job: Job) -> Iterator[Change]:
    optimizer = job.optimizer
    if _is_trained(job) and optimizer.name in ("adam", "adamw") and optimizer.bits not in (4, 8):
        changed = replace(optimizer, library="bitsandbytes", bits=8, implementation=None)
        yield "8-bit optimizer states", "little", replace(job, optimizer=changed)


def _in_backward(job: Job) -> Iterator[Change]:
    optimizer = job.optimizer
    if _is_trained(job) and not optimizer.in_backward and job.accumulation == 1:
        changed = replace(optimizer, in_backward=True, clips_gradients=False)
        yield (
            "optimizer step in backward",
            "little; no accumulation, no clipping",
            replace(job, optimizer=changed),
        )


def _smaller_micro_batch(job: Job) -> Iterator[Change]:
    if job.micro_batch > 1 and not job.optimizer.in_backward:
        half = job.micro_batch // 2
        times = job.accumulation * -(-job.micro_batch // half)
        name = f"micro-batch {half}" + (f", accumulated {times} times" if _is_trained(job) else "")
        yield name, "some", replace(job, micro_batch=half, accumulation=times)


def _checkpointing(job: Job) -> Iterator[Change]:
    modes = {"per_operator": "a few percent", "full": "about a third"}
    order = ("none", "selective", "per_operator", "full")
    for mode, cost in modes.items() if _is_trained(job) else ():
        if order.index(job.checkpointing.mode) < order.index(mode):
            name = f"{mode.replace('_', ' ')} activation checkpointing"
            yield name, cost, replace(job, checkpointing=Checkpointing(mode))  # type: ignore[arg-type] # one of its modes


def _more_shards(job: Job) -> Iterator[Change]:
    degrees = job.degrees
    if job.data_parallel.kind in _SHARED and _is_trained(job):
        changed = replace(degrees, data_parallel_shard_degree=2 * degrees.data_parallel_shard_degree)
        yield f"{changed.gpus} GPUs", "twice the GPUs", replace(job, degrees=changed)


def _offload(job: Job) -> Iterator[Change]:
    if _is_trained(job) and not job.optimizer.in_backward and "parameters" not in job.offload:
        yield "CPU offload", "slow: over PCIe every step", replace(job, offload=(*job.offload, "parameters"))


def _adapter(job: Job) -> Iterator[Change]:
    if _is_trained(job) and job.adapter is None and job.model.source != "megatron":
        changed = replace(job, adapter=Adapter("lora", _RANK, ("all-linear",)))
        yield f"LoRA of rank {_RANK}", "trains the adapters alone", changed


#: Those that train the same parameters, in the order of what they cost in speed.
_KEEPING: Final[tuple[Callable[[Job], Iterator[Change]], ...]] = (
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


def what_now(job: Job, limit_bytes: int, run_bytes: int | None = None) -> str:
    """Lines on what would lower the peak, and the largest micro-batch that fits; empty without arithmetic."""
    knobs = knobs_for(job, limit_bytes, run_bytes)
    if not knobs:
        return ""
    lines = ["What would lower it, by formulas, the cheapest in speed first:", *(knob.line for knob in knobs)]
    now = peak_bytes_of(job)
    offset = (run_bytes or now or 0) - (now or 0)
    most = largest_micro_batch(job, limit_bytes - offset)
    return "\n".join([*lines, f"The largest micro-batch that fits as it is: {most or 'none'}"])
