"""Other options for the optimizers of torch.optim than the body passes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.optim import Optimizer

from . import Note


def use_fused(item: pytest.Item, note: Note) -> None:
    """Pass ``fused=True`` to every optimizer that has it."""
    _change_options(note, {"fused": True, "foreach": None})


def use_single_tensor(item: pytest.Item, note: Note) -> None:
    """Pass ``foreach=False`` to optimizers that are not fused."""
    _change_options(note, {"foreach": False})


def _change_options(note: Note, options: dict[str, bool | None]) -> None:
    for kind in _optimizers():
        if options.keys() <= inspect.signature(kind.__init__).parameters.keys():
            kind.__init__ = _with_options(kind.__init__, note, options)  # type: ignore[method-assign]


def _optimizers() -> Iterator[type[Optimizer]]:
    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, Optimizer) and "__init__" in vars(kind):
            yield kind


def _with_options(
    make: Callable[..., None], note: Note, options: dict[str, bool | None]
) -> Callable[..., None]:
    @functools.wraps(make)
    def make_changed(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("fused"):  # set by the body, or AdamW's call of Adam.__init__
            make(self, *args, **kwargs)
            return
        make(self, *args, **{**kwargs, **options})
        note(type(self).__name__)

    return make_changed
