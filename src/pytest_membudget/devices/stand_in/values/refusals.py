"""What the virtual device refused and a GPU would not have: remembered, in case the test catches the error.

From there on the test is another run than the one on a GPU, and what it takes is not what it takes there.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from ....errors import NotAvailable
from ....tracking.running_code.source import SourceFinder, users_source

#: What fake tensors raise and real ones do not.
_ONLY_IN_A_TRACE: Final = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

#: What an operator written in C++ raises (c10/util/Exception.h and torch/csrc/Exceptions.h, 2.13:
#: ``torch.OutOfMemoryError`` and ``torch.linalg.LinAlgError`` are RuntimeErrors).
_RAISED_BY_KERNELS: Final = (RuntimeError, IndexError, TypeError, ValueError)

#: Texts, since an error would keep its tensors alive. A process runs one test.
_refused: Final[list[str]] = []


def refusal(text: str) -> NotAvailable:
    """The error to raise where the device has no counterpart for what the test asks for; it is noted."""
    note_refusal(text)
    return NotAvailable(text)


def note_refusal(text: str) -> None:
    """Remember that an error with ``text`` is raised, and for which line of the user's."""
    file, line = _source().find()
    _refused.append(text if file is None else f"{file}:{line}: {text}")


def note_untraceable(operator: object) -> None:
    """Remember that the error of an ``operator`` without a trace is raised."""
    note_refusal(f"{operator} cannot be traced")


def note_error(operator: object, error: Exception, operands: Iterable[torch.Tensor]) -> None:
    """Remember ``error``, which leaves an ``operator`` on fake tensors, if CUDA's operator raises none."""
    if isinstance(error, _ONLY_IN_A_TRACE):
        note_untraceable(operator)
    elif _is_of_fake_tensors(error, operands):
        note_refusal(f"{operator} raised {type(error).__name__}: {_first_line(error)}")


def _is_of_fake_tensors(error: Exception, operands: Iterable[torch.Tensor]) -> bool:
    if not isinstance(error, _RAISED_BY_KERNELS):
        return True
    if isinstance(error, NotImplementedError):  # a RuntimeError too: what fake tensors have no kernel for
        return True
    return "meta" in str(error).lower() and all(tensor.device.type != "meta" for tensor in operands)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def refused() -> list[str]:
    """What was refused so far in this process, each with its place."""
    return list(_refused)


@cache
def _source() -> SourceFinder:
    return users_source()
