"""What an allocation was asked for by, as its stack says: the operator, or in a backward the node."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..allocator.history import Frames

BACKWARD = "backward"
"""What asks where there is no frame: backward runs in C++ on another thread."""

#: torch/csrc/autograd/generated/Functions.h, 2.13: the nodes' classes.
_NODE = re.compile(r"\b(?:\w+Backward\d*|AccumulateGrad)\b")
#: What runs nodes and their hooks (torch/csrc/autograd/engine.h, 2.13).
_ENGINE = "autograd::Engine::"
#: ``at::_ops::add_Tensor::call``: what the dispatcher calls, as C++ stacks name it.
_OPERATOR = re.compile(r"\bat::_ops::(\w+)::")
#: Operators that allocate for other operators.
_ALLOCATING = re.compile(r"empty|zeros|new_|clone|contiguous|resize|to_|_to_copy")
#: Those of them that only call another one.
_CALLING = re.compile(r"contiguous|to_(?!copy)")
#: Those that give the values of one tensor.
_COPYING = re.compile(r"clone|contiguous|_to_copy")
#: The allocator's own entries for memory of a size (c10/cuda/CUDACachingAllocator.cpp, 2.13).
_ALLOCATE = re.compile(r"CachingAllocator::(?:allocate|raw_alloc)")
_OF_A_TENSOR = re.compile(r"empty_(?:strided_)?(?:generic|cuda)|make_storage_impl|StorageImpl|resize_bytes")
#: Frames between the allocator's history and the allocator's caller.
_ALLOCATOR = re.compile(r"torch::unwind|CapturedTraceback|gather_with_cpp|CachingAllocator::")
#: Methods of Python that are C++ functions.
_METHOD = re.compile(r"\bTHP(Storage|Variable)_(\w+)\(")
_CLASSES = {"Storage": "UntypedStorage", "Variable": "Tensor"}
_TEMPLATE = re.compile(r"(?<=\w)<[^<>]*>")
_FACTORY = re.compile(
    r"aten::(?!\w+_like)(?:empty|zeros|ones|full|rand|normal|arange|linspace|logspace|eye|tri[ul]_indices|scalar_tensor|"
    r"tensor|lift_fresh|to_|_to_copy|from_)"
)
#: A copy in another type stays where its source lies; ``to_dtype_layout`` and ``to_device`` name a device.
_CAST = re.compile(r"\bat::_ops::to_dtype::")
_PYTORCH = re.compile(r"[/\\]torch[/\\]")
_CHECKPOINT = re.compile(r"[/\\]torch[/\\]utils[/\\]checkpoint\.py$")
_MODULE = re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$")
_OTHERS = re.compile(r"[/\\](?:_pytest|pluggy|pytest_membudget|threading\.py|runpy\.py)")


def node_of(frames: Frames) -> str:
    """The running node of autograd's; empty where none runs, or it calls a line of the user's."""
    for frame in frames:
        if is_users(frame):
            break
        node = _NODE.search(str(frame["name"]))
        if node is not None:
            return node.group()
    return ""


def is_workspace(frames: Frames) -> bool:
    """Whether a library or kernel allocated memory that is not a tensor's.

    C++ stacks show it: tensors get theirs by ``at::detail::empty_generic`` and its kin.
    """
    allocating = False
    for frame in frames:
        if is_users(frame):
            break
        name = str(frame["name"])
        if allocating:
            return _OF_A_TENSOR.search(name) is None
        allocating = _ALLOCATE.search(name) is not None
    return False


def is_in_backward(frames: Frames) -> bool:
    """Whether autograd's engine is on the stack: a node runs, or a hook before it."""
    return any(_ENGINE in str(frame["name"]) for frame in frames)


def is_in_checkpoint(frames: Frames) -> bool:
    """Whether PyTorch's activation checkpointing is on the stack."""
    return any(_CHECKPOINT.search(str(frame["filename"])) for frame in frames)


def operator_of(frames: Frames) -> str:
    """The operator that allocates, as ``aten::add_Tensor``; empty where no frame names one.

    The innermost that is there for more than memory; where there is none, as for a copy, the outermost.
    """
    found = ""
    for called in _operators(frames):
        if not _ALLOCATING.match(called):
            return f"aten::{called}"
        if not found or not _CALLING.match(called):
            found = f"aten::{called}"
    return found


def copied_for(frames: Frames) -> str:
    """The outermost operator, as ``aten::matmul``, if another one copies for it; else empty."""
    operators = list(_operators(frames))
    is_copy = any(map(_COPYING.match, operators)) and not all(map(_ALLOCATING.match, operators))
    return f"aten::{operators[-1]}" if is_copy else ""


def outside_modules(frames: Frames) -> Frames:
    """The frames around the call of the outermost nn.Module; all of them where none runs."""
    calls = [n for n, frame in enumerate(frames) if _MODULE.search(str(frame["filename"]))]
    return frames[calls[-1] + 1 :] if calls else frames


def call_of(frames: Frames) -> tuple[object, ...]:
    """What is the same of allocations in one call of an operator: the user's frames, and the outermost."""
    return (*(id(frame) for frame in frames if is_users(frame)), *list(_operators(frames))[-1:])


def _operators(frames: Frames) -> Iterator[str]:
    """The running operators, as ``add_Tensor``, the innermost first."""
    for frame in frames:
        if is_users(frame):
            return
        called = _operator_in(str(frame["name"]))
        if called is not None:
            yield called


@functools.cache
def _operator_in(name: str) -> str | None:
    """The operator that the C++ function ``name`` is of; a history has each name thousands of times."""
    called = _OPERATOR.search(name)
    return called.group(1) if called is not None else None


def makes_new_values(operator: str, frames: Frames) -> bool:
    """Whether ``operator``, as of ``operator_of``, takes nothing from the device: a draw, a copy to it."""
    return _FACTORY.match(operator) is not None and not any(
        _CAST.search(str(frame["name"])) for frame in frames
    )


def function_of(frames: Frames) -> str:
    """Where no operator runs: the method of a tensor or storage, else the innermost C++ function.

    ``BACKWARD`` without frames.
    """
    names = [str(frame["name"]) for frame in frames if not _ALLOCATOR.search(str(frame["name"]))]
    for name in names:
        if (method := _METHOD.search(name)) is not None:
            return f"{_CLASSES[method[1]]}.{method[2]}"
    return _without_signature(names[0]) if names else BACKWARD


def _without_signature(name: str) -> str:
    """``a::b`` of ``void a::b<int>(long)``; templates may be nested."""
    while (shorter := _TEMPLATE.sub("", name)) != name:
        name = shorter
    return name.replace("(anonymous namespace)::", "").partition("(")[0].rpartition(" ")[2]


def is_users(frame: Mapping[str, Any]) -> bool:
    """Whether a frame is the user's Python, or a library's: PyTorch's and ours lie between operators."""
    name = str(frame["filename"])
    return name.endswith(".py") and not _PYTORCH.search(name) and not _OTHERS.search(name)
