"""The shapes of an operator's results on host tensors, without computing them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ....tracking.roles.tensor_parts import tensors_in


def result_shapes(operator: Any, args: Any, kwargs: Any) -> Any:
    """The results on the meta device.

    An elementwise one follows from broadcasting and from the operator on single elements: asking the meta
    device makes torch import its references (150 MiB and two seconds, torch 2.15).
    """
    if torch.Tag.pointwise in operator.tags and not _lists(args):
        return _elementwise(operator, args, kwargs)
    return operator(*_on_meta(args), **_on_meta(kwargs))


def host_tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in ``values`` that lie on the host and own memory."""
    for tensor in tensors_in(values):
        if tensor.device.type == "cpu" and tensor.layout is torch.strided:
            yield tensor


def _elementwise(operator: Any, args: Any, kwargs: Any) -> Any:
    tensors = list(tensors_in((args, kwargs)))
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    like = next((tensor for tensor in tensors if tensor.shape == shape), tensors[0])
    single_args, single_kwargs = tree_map_only(torch.Tensor, _one_element, (args, kwargs))
    one = operator(*single_args, **single_kwargs)
    return tree_map_only(torch.Tensor, lambda result: _of_shape(shape, like, result.dtype), one)


def _one_element(tensor: torch.Tensor) -> torch.Tensor:
    return torch.ones((1,) * tensor.dim(), dtype=tensor.dtype, device="cpu")


def _of_shape(shape: torch.Size, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if like.shape == shape:
        return torch.empty_like(like, dtype=dtype, device="meta")
    return torch.empty(shape, dtype=dtype, device="meta")


def _lists(args: Any) -> bool:
    return any(isinstance(value, (list, tuple)) for value in args)


def _on_meta(values: Any) -> Any:
    changed = tree_map_only(torch.Tensor, _meta_like, values)
    return tree_map_only(torch.device, lambda _: torch.device("meta"), changed)


def _meta_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
