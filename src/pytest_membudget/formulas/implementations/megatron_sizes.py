"""Sizes of one rank of a Megatron-LM job that its tapes are written in."""

from __future__ import annotations

from dataclasses import dataclass

from ..job import Job
from ..megatron_options import Backend, MegatronOptions
from ..number_types import bytes_for
from ..stage import Stage
from ..tape import Tensor

#: A job's attention, where Megatron-LM's own options do not say which.
_BACKENDS: dict[str, Backend] = {"unfused": "unfused", "math": "unfused", "cudnn": "fused"}


@dataclass(frozen=True, slots=True)
class MegatronSizes:
    """Rows and widths that tensor, sequence and context parallelism leave a rank."""

    job: Job
    options: MegatronOptions
    micro_batch: int
    sequence: int
    """Tokens of one sequence on this rank: context parallelism has split it."""
    tensor: int
    """The tensor-parallel degree."""
    is_sequence_parallel: bool
    hidden: int

    @property
    def tokens(self) -> int:
        """Rows inside attention and feed-forward."""
        return self.micro_batch * self.sequence

    @property
    def rows(self) -> int:
        """Rows of the residual stream: sequence parallelism splits them."""
        return -(-self.tokens // self.tensor) if self.is_sequence_parallel else self.tokens

    @property
    def compute(self) -> str:
        """The number type of products."""
        return self.job.precision.compute_type

    @property
    def has_te(self) -> bool:
        """Layers are Transformer Engine's."""
        return self.options.transformer_impl == "transformer_engine"

    def split(self, width: int) -> int:
        """``width`` over the tensor-parallel ranks."""
        return -(-width // self.tensor)

    def bytes(self, *dims: int, number_type: str | None = None) -> int:
        """Of a tensor of these dimensions."""
        elements = 1
        for dim in dims:
            elements *= dim
        return bytes_for(elements, number_type or self.compute)

    def of(self, name: str, *dims: int, formula: str = "", number_type: str | None = None) -> Tensor:
        """A tensor of a tape."""
        return Tensor(name, self.bytes(*dims, number_type=number_type), formula)

    def weight(self, name: str, *dims: int) -> Tensor:
        """A weight's gradient as its product makes it; nothing where that adds into ``main_grad``."""
        return Tensor(name, 0 if self.options.gradient_accumulation_fusion else self.bytes(*dims))

    def saved_input(
        self, name: str, read: str, rows: int, width: int
    ) -> tuple[tuple[str, ...], tuple[Tensor, ...]]:
        """What a product saves of its input: the tensor itself, or in fp8 a copy of a byte an element.

        Hopper's products want the copy's other order, and the first one goes
        (transformer_engine/pytorch/module).
        """
        if self.options.fp8 == "none":
            return (read,), ()
        scales = (
            self.bytes(rows, -(-width // 128), number_type="fp32")
            if self.options.fp8_recipe == "blockwise"
            else 0
        )
        return (), (
            Tensor(f"{name}.input_fp8", self.bytes(rows, width, number_type="fp8") + scales, "rows*width"),
        )

    def gathered(self, width: int) -> int:
        """Bytes of rows that a product gathers from the sequence's parts; 0 without sequence parallelism."""
        return self.bytes(self.tokens, width) if self.is_sequence_parallel and self.tensor > 1 else 0


def sizes_of(stage: Stage) -> MegatronSizes:
    """The sizes of ``stage``."""
    job = stage.job
    return MegatronSizes(
        job=job,
        options=job.megatron or MegatronOptions(attention_backend=_BACKENDS.get(job.attention, "flash")),
        micro_batch=job.micro_batch,
        sequence=stage.sequence,
        tensor=job.degrees.tensor_parallel_degree,
        is_sequence_parallel=job.degrees.sequence_parallel,
        hidden=job.model.hidden,
    )
