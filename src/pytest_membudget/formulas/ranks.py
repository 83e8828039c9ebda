"""A rank of a job: its pipeline stage, its part of each tensor, and how many ranks share its states."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..scenarios.job import Job
from .decoder import Decoder, Shape, Tensor, end_tensors, tensors_of

#: What only Megatron-LM's arguments say, and formulas read.
_FIRST, _LAST = "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"


@dataclass(frozen=True, slots=True)
class Rank:
    """The ranks of one pipeline stage, which are identical."""

    job: Job
    decoder: Decoder
    stage: int

    @property
    def is_megatron(self) -> bool:
        """Whether Megatron-LM's arguments say the job: bf16 weights, gradients and states in fp32."""
        return self.job.model.source == "megatron"

    @property
    def is_first(self) -> bool:
        """Whether it has the embedding."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Whether it has the head."""
        return self.stage == self.job.degrees.pipeline_parallel_degree - 1

    @property
    def ranks(self) -> int:
        """How many ranks the stage has."""
        return self.job.degrees.gpus // self.job.degrees.pipeline_parallel_degree

    @property
    def row_degree(self) -> int:
        """How many ranks share out what is between blocks: with sequence parallelism those of a layer."""
        degrees = self.job.degrees
        return degrees.tensor_parallel_degree if degrees.sequence_parallel else 1

    @property
    def layers(self) -> Counter[Shape]:
        """Its layers; with several chunks a rank those of all of them."""
        counts = layers_of_stages(self.job, len(self.decoder.layers))
        first = sum(counts[: self.stage])
        return Counter(self.decoder.layers[first : first + counts[self.stage]])

    @property
    def in_flight(self) -> float:
        """Micro-batches of the whole stage whose activations are held at once (arXiv:2205.05198, 4.2.3)."""
        degrees, batches = self.job.degrees, self.job.accumulation
        stages, chunks = degrees.pipeline_parallel_degree, degrees.virtual_stages
        if stages == 1:
            return 1
        if degrees.pipeline_parallel_schedule == "GPipe":
            return batches
        if chunks == 1:
            return min(stages - self.stage, batches)
        return min(((chunks - 1) * stages + 2 * (stages - self.stage - 1) + 1) / chunks, batches)


def layers_of_stages(job: Job, layers: int) -> list[int]:
    """How many layers each stage has: even, the first ones one more where that is not whole."""
    stages = job.degrees.pipeline_parallel_degree
    values = job.model.values if job.model.source == "megatron" else {}
    first, last = values.get(_FIRST), values.get(_LAST)
    middle = stages - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    even = [rest // middle + (number < rest % middle) for number in range(middle)] if middle else []
    return [*([first] if first is not None else []), *even, *([last] if last is not None else [])]


def parts_of(rank: Rank) -> Iterator[Tensor]:
    """The parts of every tensor of ``rank``."""
    for layer, number in rank.layers.items():
        yield from layer_parts(rank, layer, number)
    yield from end_parts(rank)


def layer_parts(rank: Rank, layer: Shape, number: int = 1) -> Iterator[Tensor]:
    """Those of ``number`` layers like ``layer``."""
    for tensor in tensors_of(layer):
        yield _part(rank, tensor, number, layer.kv_heads)


def end_parts(rank: Rank) -> Iterator[Tensor]:
    """Those of embedding, final norm and head; the last stage has a copy of a tied embedding."""
    shape = rank.decoder.shape
    for tensor in end_tensors(shape):
        is_head = tensor.part != "embedding" or (shape.tied and tensor.name == "embedding")
        if (rank.is_last and is_head) or (rank.is_first and tensor.part == "embedding"):
            yield _part(rank, tensor, 1, 1)


def _part(rank: Rank, tensor: Tensor, number: int, kv_heads: int) -> Tensor:
    degrees = rank.job.degrees
    split, count, sharing = degrees.tensor_parallel_degree, tensor.count * number, data_ranks(rank)
    if tensor.part == "experts":
        experts = degrees.expert_parallel_degree
        split, count = expert_tensor_degree(rank), max(1, count // experts)
        sharing = max(1, rank.ranks // (experts * split))
    elif tensor.name in ("k_proj", "v_proj"):
        split = min(split, kv_heads)
    rows = -(-tensor.rows // split) if tensor.split == "out" and tensor.rows > 1 else tensor.rows
    is_narrow = tensor.split == "in" or (tensor.split == "out" and tensor.rows == 1)  # a linear's bias
    columns = -(-tensor.columns // split) if is_narrow else tensor.columns
    return replace(tensor, rows=rows, columns=columns, count=count, sharing=sharing)


def data_ranks(rank: Rank) -> int:
    """The ranks that share a part that is no expert's: those of data and context parallelism.

    With FSDP2 the replicas of HSDP hold their own; ZeRO 1 and Megatron-LM's optimizer share over all.
    """
    degrees = rank.job.degrees
    own = degrees.data_parallel_shard_degree * degrees.context_parallel_degree
    if rank.is_megatron or rank.job.data_parallel.kind == "zero1":
        return own * degrees.data_parallel_replicate_degree
    return own


def expert_tensor_degree(rank: Rank) -> int:
    """Ranks that split each expert: Megatron-LM's as it splits other layers; else none with expert
    parallelism (torchtitan's ``expert_tensor_parallel_degree`` is 1).
    """
    degrees = rank.job.degrees
    if rank.is_megatron:
        written = rank.job.model.values.get("expert-tensor-parallel-size")
        return int(written or degrees.tensor_parallel_degree)
    return degrees.tensor_parallel_degree if degrees.expert_parallel_degree == 1 else 1
