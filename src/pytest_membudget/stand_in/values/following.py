"""What is known, supposed and assumed of the tensors on the cards, kept as operators run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ...tracking.source import SourceFinder
from ...virtual.known_shapes import Shape
from ...virtual.known_values import KnownValues, Scalar
from ...virtual.learning import first_is_known
from ...virtual.reads import Reads
from ...virtual.unknown_shapes import UnknownShapes
from .card_storages import CardStorages
from .original_kernels import NUMBERS, with_tensors
from .plans import Plan

#: Larger copies to the host are none that code decides by, and would take host memory.
_MOST_READ = 2**20


class Following:
    """Values by storage, with the list of what was taken for granted of them."""

    def __init__(self, source: SourceFinder) -> None:
        self.known = KnownValues(CardStorages())
        self.shapes = UnknownShapes(self.known)
        self.supposed = self.shapes.supposed
        self.reads = Reads(self.known, self.supposed)
        self.reads.source = self.shapes.source = source

    def forget_all(self) -> None:
        """Something has written to memory on the cards that nobody knows."""
        self.known.forget_all()
        self.supposed.forget_all()

    def made(self, result: Any) -> None:
        """``result`` is a new tensor, or several: their memory was another's before."""
        known, supposed = self.known, self.supposed
        if known.is_empty and supposed.is_empty:
            return
        storages = known.storages
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor) and storages.follows(tensor):
                key = storages.key(tensor)
                known.forget_at(key)
                supposed.forget_at(key)

    def saw(self, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """An operator ran."""
        if plan.makes:
            self.made(result)
        lesson, has_supposed = plan.lesson, not self.supposed.is_empty
        if lesson is None or not (has_supposed or self._concerns(plan, args, kwargs)):
            return
        # sparse tensors have no storage, and nothing is known of them
        with torch._C.DisableTorchFunction(), contextlib.suppress(NotImplementedError):
            if any(type(value) in NUMBERS for value in args[1:2]):  # not all operators take them on the host
                args = with_tensors(args, plan.tensor_positions)
            if has_supposed and self.supposed.concerns((*args, *kwargs.values())):
                self.supposed.learn(lesson, plan.operator, args, kwargs, result)
            lesson(self.known, args, kwargs, result)
            if plan.chooses:
                self.shapes.see_choice(plan.operator, args, kwargs, result)
            elif plan.counts_trues:
                self.reads.see_count(args[0], result)

    def _concerns(self, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether an operator's lesson may say something: nothing is known of most activations."""
        if plan.needs_first:
            return first_is_known(self.known, args)
        return not plan.needs_known or self._has_any(args) or bool(kwargs and self._has_any(kwargs.values()))

    def _has_any(self, values: Iterable[Any]) -> bool:
        known, follows = self.known, self.known.storages.follows
        for value in values:
            if isinstance(value, torch.Tensor):
                if not follows(value) or known.has(value):
                    return True
            elif isinstance(value, (list, tuple)) and self._has_any(value):
                return True
        return False

    def answer(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Scalar:
        """What a read of data gives."""
        with torch._C.DisableTorchFunction():
            return self.reads.answer(operator, args, kwargs)

    def read_into(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """``source`` was copied to ``target`` on the host, where code may do anything with it."""
        if 0 < source.numel() <= _MOST_READ:
            with torch._C.DisableTorchFunction():
                target.copy_(self.reads.array(source))

    def assume_within(self, target: torch.Tensor, value: Scalar) -> None:
        """``target`` on the host holds what a kernel has copied of its own: ``value`` throughout."""
        if target.numel():
            with torch._C.DisableTorchFunction():
                target.fill_(value)
            self.reads.list_assumed(target.dtype, value)

    def shapes_of(
        self, operator: Any, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Shape] | None:
        """The shapes of what ``operator`` gives; None where they have no bound."""
        if plan.shape_rule is None:
            return None
        with torch._C.DisableTorchFunction():
            return self.shapes.of(operator, plan.shape_rule, args, kwargs)
