"""The tensors that own memory behind one that may be a wrapper: what this rank holds of a DTensor."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def owners(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """``tensor`` itself, or the tensors inside it where it is a wrapper (DTensor, AsyncCollectiveTensor).

    A wrapper shows the global shape and has no memory.
    """
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    names, _ = flatten(tensor)
    for name in names:
        inner = getattr(tensor, name)
        if isinstance(inner, torch.Tensor):
            yield from owners(inner)
