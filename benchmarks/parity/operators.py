"""PyTorch's own samples of its operators, run forward and backward on the device of this process.

The samples (``torch.testing._internal.common_methods_invocations.op_db``) are made on the CPU and moved, so
that both devices get the same.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .recording import phases_of

#: All samples in the first; one in each of the others.
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool)
_SEED = 0
_TEXT = 160
#: Of an error's message.
_MESSAGE = 200
#: Of each sample: forward, the gradients that backward begins with, backward, and what follows.
_MARKS = 4


def operators() -> dict[str, Any]:
    """All of the operators by name; the variants of one have theirs behind a dot."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, Any] = {}
    for operator in op_db:
        variant = operator.variant_test_name
        found[f"{operator.name}.{variant}" if variant else operator.name] = operator
    return found


def run_operator(operator: Any, side: Any, most_samples: int | None = None) -> list[dict[str, Any]]:
    """Each of the operator's samples: what it is, and its phases or its error.

    ``most_samples``: of the first type only so many, spread evenly over all.
    """
    answers, marks = [], []
    for dtype in DTYPES:
        for text, sample in _samples(operator, dtype, most_samples if dtype is DTYPES[0] else 1):
            before = len(side.assumed())
            answer: dict[str, Any] = {"sample": text, "error": ""}
            try:
                marks += _run_sample(operator, sample.transform(_on_cuda), side, answer)
            except Exception as error:
                answer["error"] = _error("making the sample", error)
                marks += [side.allocations()] * _MARKS
            answer["assumed"] = side.assumed()[before:]
            answers.append(answer)
    phases = phases_of(side.events(), marks)
    for number, answer in enumerate(answers):
        answer["forward"] = phases[_MARKS * number].to_json()
        answer["backward"] = phases[_MARKS * number + 2].to_json()
    return answers


def _samples(operator: Any, dtype: torch.dtype, most: int | None) -> list[tuple[str, Any]]:
    """Samples of one type on the CPU, each with its text; those until the first that cannot be made there."""
    if dtype not in operator.supported_dtypes("cuda"):
        return []
    backward = operator.supports_autograd and dtype in operator.supported_backward_dtypes("cuda")
    torch.manual_seed(_SEED)
    random.seed(_SEED)
    found: list[Any] = []
    with _disable_current_modes(), contextlib.suppress(Exception):
        for sample in operator.sample_inputs("cpu", dtype, requires_grad=backward):
            found.append(sample)
            if most == 1:
                break
    name = str(dtype).removeprefix("torch.")
    step = -(-len(found) // most) if most else 1
    return [(f"{name} {at}: {_text(found[at])}", found[at]) for at in range(0, len(found), step or 1)]


def _run_sample(operator: Any, sample: Any, side: Any, answer: dict[str, Any]) -> list[int]:
    """Run it; how many requests there were as forward, gradients, backward and the rest began."""
    start = gradients_at = backward = end = side.allocations()
    what = "forward"
    try:
        output = operator(sample.input, *sample.args, **sample.kwargs)
        gradients_at = backward = end = side.allocations()
        roots = [one for one in _tensors(sample.output_process_fn_grad(output)) if _has_backward(one)]
        what = "backward"
        if roots:
            gradients = [torch.ones_like(root) for root in roots]
            backward = side.allocations()
            torch.autograd.backward(roots, gradients)
        end = side.allocations()
    except Exception as error:
        answer["error"] = _error(what, error)
        end = max(end, side.allocations())
    return [start, gradients_at, max(backward, gradients_at), end]


def _on_cuda(value: Any) -> Any:
    """``value``, tensors and devices on the device."""
    if isinstance(value, torch.Tensor):
        moved = _with_its_storage(value.detach())
        return moved.requires_grad_() if value.requires_grad else moved
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("cuda")
    return value


def _with_its_storage(tensor: torch.Tensor) -> torch.Tensor:
    """On the device, with the same strides over the same storage: expanded, or a part of a larger one."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    if (tensor.is_contiguous() and tensor.numel() == elements) or tensor.layout != torch.strided:
        return tensor.to("cuda")
    whole = tensor.as_strided((elements,), (1,), 0).to("cuda")
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _has_backward(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def _text(sample: Any) -> str:
    """Its shapes and arguments in a line."""
    parts = [_shown(sample.input), *map(_shown, sample.args)]
    parts += [f"{name}={_shown(value)}" for name, value in sample.kwargs.items()]
    return ", ".join(parts)[:_TEXT]


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, value.shape)) or "scalar"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return getattr(value, "__name__", None) or repr(value)


def _error(what: str, error: Exception) -> str:
    first: Callable[[str], str] = lambda text: text.strip().partition("\n")[0]  # noqa: E731
    return f"{what}: {type(error).__name__}: {first(str(error))}"[:_MESSAGE]
