"""Reads of data that is not there: the answers given, and the list of them for the report."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..tracking.tracker import Tracker
from .known_values import KnownValues, Scalar, plausible


@dataclass(frozen=True, slots=True)
class Read:
    """A read of unknown data at one line of the user's code, and the plausible value it was given."""

    code: CodeType | None
    line: int
    dtype: str
    value: Scalar


class ReadLog:
    """Which lines read data whose value nobody knows, and how often."""

    def __init__(self) -> None:
        self.counts: dict[Read, int] = {}

    def add(self, read: Read) -> None:
        """One more read."""
        self.counts[read] = self.counts.get(read, 0) + 1


def read_value(known: KnownValues, log: ReadLog, tracker: Tracker, tensor: torch.Tensor) -> Scalar:
    """The value of ``tensor``'s one element: known where it follows from the program, else plausible."""
    values = known.of(tensor)
    if values is not None:
        value: Scalar = values.item()
        return value
    return _plausible_value(log, tracker, tensor)


def _plausible_value(log: ReadLog, tracker: Tracker, tensor: torch.Tensor) -> Scalar:
    value = plausible(tensor.dtype)
    code, line = tracker.source.find(3)
    log.add(Read(code, line, str(tensor.dtype).removeprefix("torch."), value))
    return value


def plausible_array(mode: Any, tensor: torch.Tensor) -> Any:
    """``tensor`` as a numpy array of its own shape, filled like ``read_value``."""
    with torch._C._DisableTorchDispatch():
        values = mode.known.of(tensor)
    if values is None:
        value = _plausible_value(mode.reads, mode.tracker, tensor)
        with torch._C._DisableTorchDispatch():
            values = torch.full(tuple(tensor.shape), value, dtype=tensor.dtype, device="cpu")
    with torch._C._DisableTorchDispatch():
        return values.clone().numpy()


def install_array_reads(mode: Any) -> None:
    """Let fake tensors be turned into numpy arrays."""
    real_numpy: Any = torch.Tensor.numpy
    real_array: Any = torch.Tensor.__array__

    def numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:
        if not isinstance(tensor, FakeTensor):
            return real_numpy(tensor, force=force)
        if tensor.device.type != "cpu" and not force:
            raise TypeError(
                f"can't convert {tensor.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return plausible_array(mode, tensor)

    def array(tensor: torch.Tensor, dtype: Any = None, **kwargs: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return real_array(tensor, dtype, **kwargs) if kwargs else real_array(tensor, dtype)
        result = numpy(tensor)
        return result if dtype is None else result.astype(dtype, copy=False)

    torch.Tensor.numpy = numpy  # type: ignore[method-assign, assignment]
    torch.Tensor.__array__ = array  # type: ignore[method-assign, assignment]
