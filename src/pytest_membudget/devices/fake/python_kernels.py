"""Operators of extensions whose CUDA kernel is Python code: it is run, and so its own memory is seen.

``torch.library.custom_op``, ``triton_op``, ``register_kernel`` and ``Library.impl`` register such kernels:
they allocate by torch's own operators, and launch Triton's or a C library's kernels on what they have
allocated. A fake kernel (``register_fake``) makes only the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

#: Keys of the dispatcher whose kernel serves tensors on cuda.
_SERVE_CUDA = ("CUDA", "CompositeExplicitAutograd")

#: Extensions whose kernels hand pointers to a C library: what it writes is not seen.
_BY_POINTER = frozenset({"bitsandbytes"})

#: Errors that are raised again: of operators that cannot be traced, and out of memory.
_PASSED_ON = (
    torch.OutOfMemoryError,
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)


def has_python_kernel(operator: Any) -> bool:
    """Whether what CUDA runs for ``operator``, an ``OpOverload``, was registered in Python."""
    namespace, _, name = operator.name().partition("::")
    return any(f"{namespace}/{name}/{key}" in torch.library._impls for key in _SERVE_CUDA)


def run_python_kernel(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the kernel gives on fake tensors; to be called with the fake tensor mode on.

    ``NotImplemented`` where it hands them to C++, which finds no data and raises, and there is a fake kernel.
    """
    try:
        return operator.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), *args, **kwargs)
    except _PASSED_ON:
        raise
    except RuntimeError:
        if _has_fake_kernel(operator):
            return NotImplemented
        raise


def written_by_pointer(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[torch.Tensor]:
    """Operands of ``operator`` that a C library has written to: nothing is known of their values any more."""
    if operator.namespace not in _BY_POINTER:
        return
    for place, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            if isinstance(given, torch.Tensor):
                yield given


def _has_fake_kernel(operator: Any) -> bool:
    entry = torch._library.simple_registry.singleton.find(operator.name())
    return entry.fake_impl.kernel is not None or torch._C._dispatch_has_kernel_for_dispatch_key(
        operator.name(), "Meta"
    )
