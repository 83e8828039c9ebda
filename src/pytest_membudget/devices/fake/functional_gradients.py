"""``torch.func.grad``, ``grad_and_value`` and ``vjp`` on the virtual device.

They wrap tensors in others whose device the autograd engine must not see (see ``device_query``). A transform
that is not nested needs no wrappers: its arguments are aliases here, differentiated as any other tensors, and
what it gives is cut off from them, unless something around it is to be differentiated too. Transforms of
transforms (``vmap`` of ``grad``, ``jacrev``, ``hessian``) are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from .refusals import refusal

_REFUSED = (
    "torch.func's vmap of grad, jacrev and hessian do not work on the virtual CUDA device that budgets are "
    "estimated on, nor do is_grads_batched=True and vectorize=True; torch.func.grad and vjp without vmap, "
    "torch.autograd.grad and Tensor.backward do"
)
_is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


class _Level:
    """One transform that is not nested: what it differentiates, and whether gradients are needed outside."""

    def __init__(self) -> None:
        self._wanted_outside = torch.is_grad_enabled()
        self._leaves: list[torch.Tensor] = []

    def alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the function is given for ``tensor``."""
        if self._wanted_outside and tensor.requires_grad:
            return tensor.view_as(tensor)
        return tensor.detach()

    def differentiate(self, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor``, an alias, is an argument to differentiate by."""
        if not tensor.requires_grad:
            tensor.requires_grad_()
            self._leaves.append(tensor)
        return tensor

    def result(self, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor`` as the transform's caller has it."""
        return tensor if self.is_followed(tensor) else tensor.detach()

    def is_followed(self, tensor: torch.Tensor) -> bool:
        """Whether a gradient may be asked for around the transform."""
        return self._wanted_outside and any(
            all(leaf is not own for own in self._leaves) for leaf in _leaves_of(tensor)
        )


def install_functional_gradients() -> None:
    """Let those transforms run so, and refuse the others."""
    module: Any = torch._functorch.eager_transforms
    nesting, wrap = module.grad_increment_nesting, module._wrap_all_tensors
    create, undo = module._create_differentiable, module._undo_create_differentiable

    def grad_increment_nesting() -> AbstractContextManager[Any]:
        is_outermost = torch._C._functorch.peek_interpreter_stack() is None
        return _alone() if is_outermost else nesting()

    def wrap_all_tensors(tree: Any, level: Any) -> Any:
        return _mapped(level.alias, tree) if isinstance(level, _Level) else wrap(tree, level)

    def create_differentiable(tree: Any, level: Any = None) -> Any:
        return _mapped(level.differentiate, tree) if isinstance(level, _Level) else create(tree, level)

    def undo_create_differentiable(tree: Any, level: Any = None) -> Any:
        return _mapped(level.result, tree) if isinstance(level, _Level) else undo(tree, level)

    module.grad_increment_nesting, module._wrap_all_tensors = grad_increment_nesting, wrap_all_tensors
    module._create_differentiable = create_differentiable
    module._undo_create_differentiable = undo_create_differentiable
    _refuse_wrapped(module)
    _refuse_batched()


#: Those that run, the innermost last.
_levels: list[_Level] = []


@contextmanager
def _alone() -> Iterator[_Level]:
    level = _Level()
    _levels.append(level)
    try:
        yield level
    finally:
        _levels.remove(level)


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    return tree_map_only(torch.Tensor, change, tree)


def _leaves_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors whose ``.grad`` a backward of ``tensor`` would add to."""
    if tensor.grad_fn is None:
        if tensor.requires_grad:
            yield tensor
        return
    seen, left = set(), [tensor.grad_fn]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name() == "torch::autograd::AccumulateGrad":
            yield node.variable  # type: ignore[attr-defined]
        left += [function for function, _ in node.next_functions if function is not None]


def _refuse_wrapped(module: Any) -> None:
    original = module._autograd_grad

    def gradient(
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        grad_outputs: Sequence[torch.Tensor] | None = None,
        **kw: Any,
    ) -> Any:
        given = (*outputs, *inputs, *(grad_outputs or ()))
        if any(_is_wrapped(tensor) and tensor.device.type == "cuda" for tensor in given):
            raise refusal(_REFUSED)
        if _levels and any(_levels[-1].is_followed(tensor) for tensor in outputs):
            kw["retain_graph"] = True  # one graph serves the transform and what is around it
        return original(outputs, inputs, grad_outputs, **kw)

    module._autograd_grad = gradient


def _refuse_batched() -> None:
    original: Any = torch.autograd.grad

    def grad(outputs: Any, *args: Any, **kw: Any) -> Any:
        if kw.get("is_grads_batched") and any(
            tensor.device.type == "cuda" for tensor in torch.utils._pytree.tree_leaves(outputs)
        ):
            raise refusal(_REFUSED)
        return original(outputs, *args, **kw)

    torch.autograd.grad = grad
