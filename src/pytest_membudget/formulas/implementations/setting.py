"""What a stage's layers are written with: number types, sizes, the card, who trains."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from ...hardware.gpus import Gpu, find_gpu
from ..job import Adapter, AttentionKernel, Job
from ..model import Model
from ..number_types import number_type
from ..stage import Stage
from ..terms import Sizes
from .adapted_names import adapted_names

#: Whose multiprocessors size the kernels' own buffers where a job names no card.
DEFAULT_CARD = "H100-80GB"


@dataclass(frozen=True, slots=True)
class Setting:
    """How one model of a job is run on one rank."""

    values: Mapping[str, int]
    """Named sizes: ``b`` sequences, ``s`` tokens of each, ``n`` tokens between split layers, ``h`` hidden."""
    stored: str
    """Type of the parameters as they are computed with, and of their gradients."""
    autocast: str | None
    """Type of products under autocast; None: it is off."""
    attention: AttentionKernel
    gpu: Gpu
    trains: bool = True
    """The base's weights do."""
    drops: bool = True
    """Dropout is on: the model is in training mode."""
    is_causal: bool = True
    keys: str = "s"
    """Tokens that attention looks back at: the cache's, where there is one (``T``)."""
    cache_kind: str = "bf16"
    is_sequence_parallel: bool = False
    adapter: Adapter | None = None
    adapts: frozenset[str] = frozenset()
    """Linear layers of the tapes that have adapters."""
    compute: str = "bf16"
    """Type that quantised weights are computed in."""
    tensor_parallel: int = 1
    shares_table: bool = False
    """This rank's embedding and head are one weight: backward adds their gradients up."""
    updates: Job | None = None
    """The job whose optimizer uses each gradient as soon as it is there; None: none does."""

    @property
    def quantised(self) -> str | None:
        """How the linear layers' frozen weights are stored, where they are not as they are computed with."""
        return None if self.adapter is None else self.adapter.base

    @property
    def residual(self) -> str:
        """Type of the residual stream: that of the embedding."""
        return self.stored

    @property
    def product(self) -> str:
        """Type of what linear layers make."""
        return self.autocast or self.stored

    def sizes(self, **more: int) -> Sizes:
        """The named sizes, with those of one layer."""
        return Sizes({**self.values, **more})

    @property
    def key(self) -> Hashable:
        """All that it says: two settings with the same key write the same tapes."""
        return tuple(self.values.items()), *_others_of(self)

    def frozen(self) -> Setting:
        """The same for a model that only answers: a teacher, or inference."""
        return replace(self, trains=False, drops=False, adapter=None)


_others_of = attrgetter(*(field.name for field in fields(Setting) if field.name != "values"))


def setting_of(stage: Stage, model: Model | None = None, tokens: int | None = None) -> Setting:
    """The setting of ``model`` (the job's own) on ``stage``; ``tokens`` of a sequence, if not its own."""
    job = stage.job
    model = job.model if model is None else model
    degrees = job.degrees
    split = degrees.tensor_parallel_degree if degrees.sequence_parallel else 1
    sequence = stage.sequence if tokens is None else tokens
    if model.patches is not None:
        sequence = model.positions
    precision = job.precision
    kind = number_type(precision.compute_type if precision.policy == "fsdp" else precision.parameters)
    autocast = number_type(precision.compute_type) if precision.policy == "autocast" else None
    compute, adapter = autocast or kind, job.adapter if model is job.model else None
    if adapter is not None and adapter.casts_rest:
        kind = "fp32"
    return Setting(
        {"b": job.micro_batch, "s": sequence, "n": -(-sequence // split), "h": model.hidden},
        kind,
        None if autocast == kind else autocast,
        job.attention,
        card_of(job),
        trains=adapter is None,
        is_sequence_parallel=split > 1,
        adapter=adapter,
        adapts=adapted_names(model, adapter),
        compute=compute,
        tensor_parallel=degrees.tensor_parallel_degree,
        shares_table=_shares_table(stage, model),
        updates=job if job.optimizer.in_backward else None,
    )


def _shares_table(stage: Stage, model: Model) -> bool:
    """A tied table is shared where there is a head to share it with: not in a classifier, nor between stages
    (each has its copy)."""
    has_head = model.has_head and not model.classes and stage.job.loss.kind != "none"
    return model.tied and has_head and stage.has_embedding and stage.has_head


def card_of(job: Job) -> Gpu:
    """The job's card, or the default one."""
    return find_gpu(job.gpu or DEFAULT_CARD)
