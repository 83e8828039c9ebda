"""Training steps: an ordinary one, one of distillation, and optimizers that step inside the backward pass."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from .losses import cross_entropy_in_chunks, forward_kl
from .models import Batch, Loss, call, logits_of, loss_of, refuse_training_mode


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


def distillation_step(
    student: nn.Module,
    teacher: nn.Module,
    optimizer: Optimizer | None,
    batch: Batch,
    *,
    temperature: float = 1.0,
    kd_ratio: float = 0.5,
    chunks: int = 1,
    ignore_index: int = -100,
) -> Tensor:
    """Train ``student`` one step towards ``teacher``'s distribution; return the loss, detached.

    Equivalent to::

        labels = batch.pop("labels")
        labels = F.pad(labels[:, 1:], (0, 1), value=ignore_index)   # position i names token i + 1
        with torch.no_grad():
            teacher_logits = teacher(**batch).logits                # (batch, sequence, vocabulary)
        logits = student(**batch).logits
        kd = forward_kl(logits, teacher_logits, labels, temperature, chunks, ignore_index)
        ce = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=ignore_index)
        loss = kd_ratio * temperature**2 * kd + (1 - kd_ratio) * ce
        del logits, teacher_logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    The mix is torchtune's (``recipes/knowledge_distillation_single_device.py`` at 00d09d0); the factor
    ``temperature**2`` is from Hinton et al., "Distilling the Knowledge in a Neural Network" (2015), section
    2. Both losses are taken in ``chunks`` along the sequence; the models compute no loss themselves. Without
    ``labels`` (any tensor or sequence) the loss is the divergence alone, over every position.

    The teacher runs first: its temporaries are gone before the student's activations come. It must be in
    eval mode; neither its mode nor ``requires_grad`` is changed. ``use_cache=False`` in the batch spares
    Hugging Face models a key-value cache. ``optimizer=None`` is for :func:`optimizer_in_backward`.

    Raises ``TypeError`` for outputs without logits, ``ValueError`` for a ratio outside 0..1, a teacher in
    training mode, or logits of two shapes.
    """
    if not 0.0 <= kd_ratio <= 1.0:
        raise ValueError(f"kd_ratio={kd_ratio!r}: give 0 (cross entropy only) to 1 (teacher only)")
    refuse_training_mode(teacher, "teacher")
    inputs, labels = _next_token_labels(batch, ignore_index)
    with torch.no_grad():
        teacher_logits = logits_of(call(teacher, inputs), "teacher")
    logits = logits_of(call(student, inputs), "student")
    loss = temperature**2 * forward_kl(logits, teacher_logits, labels, temperature, chunks, ignore_index)
    if labels is not None and kd_ratio < 1.0:
        cross_entropy = cross_entropy_in_chunks(logits, labels, chunks, ignore_index)
        loss = kd_ratio * loss + (1.0 - kd_ratio) * cross_entropy
    del logits, teacher_logits  # the graph holds what backward needs of them
    loss.backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def _next_token_labels(batch: Batch, ignore_index: int) -> tuple[object, Tensor | None]:
    """What the models are called with, and for each position the token that comes next."""
    if not isinstance(batch, Mapping) or batch.get("labels") is None:
        return batch, None
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return inputs, F.pad(batch["labels"][..., 1:], (0, 1), value=ignore_index)


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerInBackward:
    """Optimizers that step while backward runs, until :meth:`remove`."""

    optimizers: Mapping[Tensor, Optimizer]
    """One a parameter; a schedule of the learning rate sets it in each."""
    handles: tuple[RemovableHandle, ...]
    """The hooks, in the parameters' order."""

    def remove(self) -> None:
        """Take the hooks off: from here on gradients stay, as in ordinary training."""
        for handle in self.handles:
            handle.remove()


def optimizer_in_backward(
    parameters: nn.Module | Iterable[Tensor], optimizer_class: Callable[..., Optimizer], **kwargs: object
) -> OptimizerInBackward:
    """Step each parameter as soon as its gradient is there, and free the gradient.

    Equivalent to::

        optimizers = {p: optimizer_class([p], **kwargs) for p in model.parameters() if p.requires_grad}

        def step_and_free(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in optimizers:
            parameter.register_post_accumulate_grad_hook(step_and_free)

    so that only a few gradients are alive at once. ``loss.backward()`` is then the whole update, or
    ``train_step(model, None, batch)``. Frozen parameters are skipped. What needs all gradients at once is
    lost: accumulation, clipping by the total norm, a gradient scaler. After PyTorch's tutorial "How to save
    memory by fusing the optimizer step into the backward pass".

    Raises ``ValueError`` when no parameter requires a gradient.
    """
    given = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
    optimizers = {p: optimizer_class([p], **kwargs) for p in given if p.requires_grad}
    if not optimizers:
        raise ValueError("no parameter requires a gradient: unfreeze some before optimizer_in_backward")

    def step_and_free(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad(set_to_none=True)

    handles = [parameter.register_post_accumulate_grad_hook(step_and_free) for parameter in optimizers]
    return OptimizerInBackward(optimizers, tuple(handles))
