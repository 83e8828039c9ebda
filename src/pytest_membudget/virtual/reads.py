"""Reads of data that is not there: the answers given, and the list of them for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..tracking.source import SourceFinder
from .known_values import KnownValues, Scalar, plausible
from .on_host import NotKnown, OnHost

aten = torch.ops.aten

#: Operators that give a number of Python's, not a tensor.
READS = frozenset({aten._local_scalar_dense.default, aten.equal.default, aten.allclose.default})


#: Values that are told of one line.
_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class Read:
    """Reads of unknown data of one type at one line of the user's code."""

    code: CodeType | None
    line: int
    dtype: str


class Answers:
    """What those reads were given: how often, and which plausible values."""

    __slots__ = ("count", "values")

    def __init__(self) -> None:
        self.count = 0
        self.values: dict[str, None] = {}

    def add(self, value: Scalar | str) -> None:
        """One more."""
        self.count += 1
        self.values[str(value)] = None

    def __str__(self) -> str:
        told = ", ".join(list(self.values)[:_MOST_TOLD])
        more = len(self.values) - _MOST_TOLD
        times = f"{self.count} times" if self.count > 1 else "once"
        return f"({times}): taken to be {told}" + (f" and {more} other values" if more > 0 else "")


class Reads:
    """Answers reads of data: with the value where it is known, else with a plausible one, which is listed."""

    def __init__(self, known: KnownValues) -> None:
        #: which lines read data whose value nobody knows, and what they were given
        self.assumed: dict[Read, Answers] = {}
        self.source: SourceFinder | None = None
        self._known = known

    def answer(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Scalar:
        """What ``operator``, one of ``READS``, gives."""
        if operator is aten._local_scalar_dense.default:
            return self._number(args[0])
        return self._comparison(operator, args, kwargs)

    def array(self, tensor: torch.Tensor) -> torch.Tensor:
        """All values of ``tensor`` as a real host tensor of its shape; one read."""
        values = self._known.of(tensor)
        if values is None:
            value = plausible(tensor.dtype)
            values = torch.tensor(value, dtype=tensor.dtype, device="cpu").expand(tuple(tensor.shape))
        elif not self._known.is_assumed(tensor):
            return values
        if tensor.numel():
            first, last = values.flatten()[0].item(), values.flatten()[-1].item()
            self.list_assumed(tensor.dtype, first if first == last else f"{first} to {last}")
        return values

    def list_assumed(self, dtype: torch.dtype, value: Scalar | str) -> None:
        """Whoever runs has been given ``value`` without anybody knowing it."""
        code, line = self.source.find(3) if self.source is not None else (None, 0)
        read = Read(code, line, str(dtype).removeprefix("torch."))
        self.assumed.setdefault(read, Answers()).add(value)

    def _number(self, tensor: torch.Tensor) -> Scalar:
        values = self._known.of(tensor)
        value: Scalar = plausible(tensor.dtype) if values is None else values.item()
        if values is None or self._known.is_assumed(tensor):
            self.list_assumed(tensor.dtype, value)
        return value

    def _comparison(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        first, second = args[:2]
        if first is second:
            return True
        if first.shape != second.shape and operator is aten.equal.default:
            return False
        host = OnHost(self._known)
        try:
            found = bool(host.run(operator, args, kwargs))
        except NotKnown:
            found = True  # tests and loops compare what they take to be equal
        else:
            if not host.assumed:
                return found
        self.list_assumed(torch.bool, found)
        return found


def install_array_reads(reads: Reads, known: KnownValues) -> None:
    """Let fake tensors be turned into numpy arrays and lists, and be compared elementwise."""
    fake: Any = FakeTensor

    def numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:
        if not force:
            _refuse_numpy(tensor)
        with torch._C._DisableTorchDispatch():
            return reads.array(tensor).clone(memory_format=torch.contiguous_format).numpy()

    def array(tensor: torch.Tensor, dtype: Any = None, **_: Any) -> Any:
        result = numpy(tensor)
        return result if dtype is None else result.astype(dtype, copy=False)

    def tolist(tensor: torch.Tensor) -> Any:
        with torch._C._DisableTorchDispatch():
            return reads.array(tensor).tolist()

    fake.numpy, fake.__array__, fake.tolist = numpy, array, tolist
    _install_isclose(known)
    # nobody knows whether what a network gives is a valid parameter; a healthy run's is
    torch.distributions.Distribution.set_default_validate_args(False)


def _refuse_numpy(tensor: torch.Tensor) -> None:
    """Raise as ``Tensor.numpy`` does."""
    if tensor.device.type != "cpu":
        raise TypeError(
            f"can't convert {tensor.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if tensor.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )


def _install_isclose(known: KnownValues) -> None:
    """Take unknown tensors that are compared to be close: ``torch.testing.assert_close`` asks so."""
    original: Any = torch.isclose

    def isclose(*args: Any, **kwargs: Any) -> torch.Tensor:
        result: torch.Tensor = original(*args, **kwargs)
        if isinstance(result, FakeTensor) and not known.knows(result):
            known.note(result, True, assumed=True)
        return result

    torch.isclose = isclose
    torch.Tensor.isclose = isclose  # type: ignore[method-assign]
