"""What is known, supposed and assumed of the tensors on the cards, kept as operators run."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from ....caveats import WORST_CASE
from ....tracking.running_code.source import SourceFinder
from ..host.memory import HostMemory
from .card_storages import CardStorages, Scalar
from .drawn_shares import DRAW, DrawnShares
from .followed_memory import FollowedMemory
from .host_copies import HostCopies
from .known_values import KnownValues
from .plans import Plan
from .reads import Reads
from .sized_by_data import Shape
from .unknown_shapes import UnknownShapes


class Following:
    """Values by storage, with the list of what was taken for granted of them."""

    def __init__(self, source: SourceFinder) -> None:
        self._memory = FollowedMemory(self.forget_at)
        self._given = self._memory.given
        self.host = HostMemory()
        self.known = KnownValues(CardStorages(self._memory, self.host))
        self.shapes = UnknownShapes(self.known, source)
        self.supposed = self.shapes.supposed
        self._known_keys, self._supposed_keys = self.known.keys, self.supposed.keys
        self.reads = Reads(self.known, self.supposed, source)
        self._counted_keys, self._chosen_keys = self.reads.counted
        #: what is known of numbers that were just drawn
        self.drawn = DrawnShares(self.known)
        self._drawn_keys = self.drawn.notes.keys
        #: called with host tensors that are filled, or copied to a card or from one
        self.see_host: Callable[[torch.Tensor], None] = lambda tensor: None
        self.copies = HostCopies(self.host, self.known, self.reads, self.saw)

    def forget_all(self) -> None:
        """Something has written to memory on the cards that nobody knows."""
        self.known.forget_all()
        self.supposed.forget_all()
        self.reads.forget_all()
        self.drawn.notes.forget_all()

    def forget_at(self, address: int) -> None:
        """Nothing is known any more of the storage that begins at ``address``."""
        self.known.forget_at(address)
        self.supposed.forget_at(address)
        self.reads.forget_at(address)
        self.drawn.notes.forget_at(address)

    def concerns(self, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether ``saw`` may have anything to note: nothing is known of most activations. It runs often."""
        if plan.lesson is None:
            return False
        if self._supposed_keys or plan.needed is None:
            return True
        if self._drawn_keys or plan.operator is DRAW:
            return True
        if plan.counts and (self._counted_keys or self._chosen_keys or _is_mask(args[0])):
            return True
        if self._given.value:
            self._memory.forget_given()
        return self._are_known(args[plan.needed]) or bool(kwargs and self._are_known(kwargs.values()))

    def _are_known(self, values: Iterable[Any]) -> bool:
        """Whether something may be known of a tensor among ``values``: as ``CardStorages.key``, in place."""
        known = self._known_keys
        for value in values:
            if isinstance(value, torch.Tensor):
                if not value.is_cuda or value.layout is not torch.strided:
                    return True
                address, offset = value.data_ptr(), value.storage_offset()
                if (address - offset * value.itemsize if offset else address) in known:
                    return True
            elif isinstance(value, (list, tuple)) and self._are_known(value):
                return True
        return False

    def saw(self, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """An operator ran that ``concerns``."""
        lesson = plan.lesson
        if lesson is None:
            return
        if self._drawn_keys and not plan.is_of_draws:
            self.drawn.notes.forget_all()
        # sparse tensors have no storage, and nothing is known of them
        with self.host.own(), torch._C.DisableTorchFunction(), contextlib.suppress(NotImplementedError):
            if self._supposed_keys and self.supposed.concerns((*args, *kwargs.values())):
                self.supposed.learn(lesson, plan.operator, args, kwargs, result)
            lesson(self.known, args, kwargs, result)
            if plan.chooses:
                self.shapes.see_choice(plan.operator, args, kwargs, result)
            if plan.has_options:
                self.reads.see_choice(plan.operator, args, kwargs, result)
            elif plan.counts:
                self.reads.see_count(plan.operator, args, result)
            if plan.is_of_draws:
                self.drawn.saw(plan.operator, args, result)

    def assume_lengths(self, mask: torch.Tensor) -> None:
        """``mask`` is true from the start of each row on: to its end, where nobody knows how far."""
        if not self.known.knows(mask):
            with self.host.own(), torch._C.DisableTorchFunction():
                self.known.keep(mask, self.shapes.lengths(tuple(mask.shape)))

    def answer(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Scalar:
        """What a read of data gives."""
        with self.host.own(), torch._C.DisableTorchFunction():
            return self.reads.answer(operator, args, kwargs)

    def read_into(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """``source`` was copied to ``target`` on the host, where code may do anything with it."""
        if source.numel():
            with self.host.own(), torch._C.DisableTorchFunction():
                self.copies.read_into(target, source)

    def assume_within(self, target: torch.Tensor, value: Scalar) -> None:
        """``target`` on the host holds what a kernel has copied: ``value``, by which it takes most."""
        if target.numel():
            with self.host.own(), torch._C.DisableTorchFunction():
                target.fill_(value)
            self.reads.list_assumed(target.dtype, value, WORST_CASE)

    def shapes_of(self, plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Shape] | None:
        """The shapes of what the operator of ``plan`` gives; None where they have no bound."""
        if plan.sized is None:
            return None
        with self.host.own(), torch._C.DisableTorchFunction():
            return self.shapes.of(plan.sized, args, kwargs)


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.bool
