"""Broadcasts: numbers and objects that rank 0 sends, passed on to the ranks that run after it.

A rank runs alone. What others send is not there, but rank 0 runs first, and the
numbers that are known of its tensors, and its plain objects, are what a real broadcast would bring. Of what
is not known the other ranks have what is their own.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import torch

from .numbers import RankNumbers

#: Most elements of a tensor and most parts of an object that are handed on: sizes, numbers, settings.
_MOST_ELEMENTS = 2**16
#: What a literal of Python's can be made of.
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_LISTS = (list, tuple, set)

#: A broadcast's tensors or objects, each None where it is not known.
_Sent = list[Any]


class Broadcasts:
    """What rank 0 has sent to each process group, in order: recorded on rank 0, received on the others."""

    def __init__(self, known: RankNumbers, rank: int, rank0_broadcasts: str) -> None:
        """``rank0_broadcasts``: the result of ``sent`` on rank 0; empty if it is not known."""
        self._known = known
        self._is_first = rank == 0
        self._sent: list[tuple[str, _Sent]] = []
        self._received: dict[str, deque[_Sent]] = defaultdict(deque)
        for group, sent in json.loads(rank0_broadcasts) if rank0_broadcasts else ():
            self._received[group].append(sent)

    def sent(self) -> str:
        """All that this rank has sent, as text; empty unless it is rank 0 and another could use it."""
        is_of_use = any(one is not None for _, sent in self._sent for one in sent)
        return json.dumps(self._sent) if is_of_use else ""

    def tensors(self, group: str, root: int, tensors: Sequence[torch.Tensor]) -> None:
        """``tensors`` are broadcast from ``root``, a rank of ``group``."""
        if self._is_first and root == 0:
            self._sent.append((group, [self._numbers(tensor) for tensor in tensors]))
            return
        for tensor, numbers in zip(tensors, self._next(group, root), strict=False):
            if numbers is None or numbers[:2] != [str(tensor.dtype), list(tensor.shape)]:
                continue
            if isinstance(numbers[2], list):
                self._known.keep(tensor, torch.tensor(numbers[2], dtype=tensor.dtype).reshape(tensor.shape))
            else:
                self._known.note(tensor, numbers[2])

    def objects(self, group: str, root: int, objects: list[Any]) -> None:
        """``objects`` are broadcast from ``root``, a rank of ``group``: on others they become what it has."""
        if self._is_first and root == 0:
            self._sent.append((group, [_text(one) for one in objects]))
            return
        for place, text in enumerate(self._next(group, root)[: len(objects)]):
            if text is not None:
                objects[place] = ast.literal_eval(text)

    def _next(self, group: str, root: int) -> _Sent:
        """What rank 0, which is the first of all its groups, has sent to ``group`` next."""
        waiting = self._received[group] if root == 0 else None
        return waiting.popleft() if waiting else []

    def _numbers(self, tensor: torch.Tensor) -> list[Any] | None:
        """Type, shape, and all values or the one that all are."""
        if tensor.is_complex() or self._known.is_assumed(tensor):
            return None
        numbers: Any = self._known.uniform(tensor)
        if numbers is None:
            values = self._known.of(tensor) if tensor.numel() <= _MOST_ELEMENTS else None
            if values is None:
                return None
            numbers = values.reshape(-1).tolist()
        return [str(tensor.dtype), list(tensor.shape), numbers]


def _text(value: Any) -> str | None:
    """``value`` as a literal of Python's; None for what is none, or large."""
    if not _is_plain(value):
        return None
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # not a number, or deeply nested
        return None


def _is_plain(value: Any) -> bool:
    """Whether ``value`` is data alone: the text of anything else may be long, and may read tensors."""
    waiting = [value]
    for _ in range(_MOST_ELEMENTS):
        if not waiting:
            return True
        one = waiting.pop()
        if type(one) is dict:
            waiting += [*one, *one.values()]
        elif type(one) in _LISTS:
            waiting += one
        elif type(one) not in _ATOMS:
            return False
    return False
