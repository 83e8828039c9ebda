"""The training step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .models import Batch, Loss, call, loss_of


def train_step(
    model: nn.Module,
    optimizer: Optimizer | None,
    batch: Batch | Iterator[Batch],
    loss: Loss | None = None,
    *,
    accumulate: int = 1,
    max_grad_norm: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    autocast_dtype: torch.dtype | None = None,
) -> Tensor:
    """Forward, backward, clip, step; return the loss, detached, of no dimension.

    Equivalent to::

        for micro_batch in batch.chunk(accumulate):
            with torch.autocast(device_type, autocast_dtype):   # if autocast_dtype is given
                loss = model(**micro_batch).loss / accumulate
            loss.backward()                                     # with a scaler: scaler.scale(loss)
        clip_grad_norm_(model.parameters(), max_grad_norm)      # if given; after scaler.unscale_
        optimizer.step()                                        # with a scaler: scaler.step, update
        optimizer.zero_grad(set_to_none=True)

    ``accumulate=n`` splits the batch's tensors along the first dimension into ``n`` equal micro-batches, or
    draws ``n`` of them one by one where ``batch`` is an iterator (``iter(loader)``). Each counts the same:
    the gradients are those of one large batch where the loss is a mean over parts of equal size.

    The loss is ``loss(output, batch)`` where ``loss`` is given, else what the model returned: a tensor of no
    dimension, its ``.loss`` or its ``["loss"]``. ``optimizer=None`` leaves the step to the hooks of
    :func:`optimizer_in_backward`.

    Raises ``TypeError`` for a batch or an output of another kind, ``ValueError`` for a batch that does not
    split or an option that a missing optimizer rules out.
    """
    if optimizer is None and (accumulate > 1 or max_grad_norm is not None or scaler is not None):
        raise ValueError(
            "accumulate, max_grad_norm and scaler need all gradients at once, and optimizer=None leaves each "
            "to the hook that frees it: give an optimizer, or none of the three"
        )
    scaler = scaler or torch.amp.GradScaler(enabled=False)
    losses = []
    for micro_batch in _micro_batches(batch, accumulate):
        with _autocast(micro_batch, autocast_dtype):
            micro_loss = loss_of(call(model, micro_batch), micro_batch, loss) / accumulate
        scaler.scale(micro_loss).backward()
        losses.append(micro_loss.detach())
    if optimizer is not None:
        if max_grad_norm is not None:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    return torch.stack(losses).sum()


def _autocast(batch: object, dtype: torch.dtype | None) -> contextlib.AbstractContextManager[object]:
    if dtype is None:
        return contextlib.nullcontext()
    # The batch's device, not the parameters': those may be offloaded to the host between steps.
    values = batch.values() if isinstance(batch, Mapping) else batch
    for value in values if isinstance(values, Iterable) and not isinstance(values, Tensor) else [values]:
        if isinstance(value, Tensor):
            return torch.autocast(value.device.type, dtype)
    raise ValueError(f"autocast_dtype={dtype} needs a tensor in the batch, to know the device")


def _micro_batches(batch: Batch | Iterator[Batch], count: int) -> Iterator[object]:
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
