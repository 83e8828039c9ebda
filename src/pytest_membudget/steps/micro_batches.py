"""A batch into the micro-batches of gradient accumulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from torch import Tensor

from .model_calls import Batch


def micro_batches(batch: Batch | Iterator[Batch], count: int) -> Iterator[object]:
    """``count`` equal parts of ``batch``, or ``count`` batches drawn from an iterator, one at a time."""
    if count < 1:
        raise ValueError(f"accumulate={count!r}: give the number of micro-batches, at least 1")
    if not isinstance(batch, Iterator):
        yield from (_part(batch, index, count) for index in range(count))
        return
    drawn = 0
    for micro_batch in islice(batch, count):
        yield micro_batch
        drawn += 1
    if drawn < count:
        raise ValueError(f"the iterator gave {drawn} micro-batches where accumulate={count} asks for {count}")


def _part(batch: object, index: int, count: int) -> object:
    if count == 1:
        return batch
    if isinstance(batch, Mapping):
        return {name: _part(value, index, count) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return [_part(value, index, count) for value in batch]
    if not isinstance(batch, Tensor) or batch.dim() == 0:
        return batch  # an option such as use_cache=False is every micro-batch's
    if batch.shape[0] % count:
        raise ValueError(
            f"a tensor of shape {tuple(batch.shape)} does not split into accumulate={count} equal "
            f"micro-batches: give a first dimension that {count} divides, or an iterator of micro-batches"
        )
    return batch.chunk(count)[index]
