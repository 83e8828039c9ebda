"""Numbers of tensors as a rank's collectives ask for them: followed on cards, in memory on the host."""

import torch

from ..values.card_storages import Scalar
from ..values.following import Following

#: Elements of a host tensor whose numbers are passed on: counters, sizes, flags, lists of ids.
_MOST_ELEMENTS = 2**16


class RankNumbers:
    """Of cards' tensors what ``stand_in/values`` follows; of the host's, which are small, what is there."""

    def __init__(self, following: Following) -> None:
        self._known = following.known
        self._supposed = following.supposed
        self._drawn = following.drawn.notes

    def most_elements(self, dtype: torch.dtype) -> int:
        """How many elements a tensor of ``dtype`` may have for its numbers to be followed."""
        return self._known.most_elements(dtype)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether something is known of ``tensor``; ``of`` may still give None."""
        if tensor.is_cuda:
            return self._known.knows(tensor)
        return (
            tensor.layout is torch.strided
            and not tensor.is_quantized
            and 0 < tensor.numel() <= _MOST_ELEMENTS
            and tensor.device.type == "cpu"
        )

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """All numbers of ``tensor``, of its shape, on the host; of a host tensor a copy."""
        if tensor.is_cuda:
            return self._known.of(tensor)
        return tensor.detach().clone() if self.knows(tensor) else None

    def uniform(self, tensor: torch.Tensor) -> Scalar | None:
        """The one number of all elements, also of a large tensor on a card."""
        return self._known.uniform(tensor) if tensor.is_cuda else None

    def is_assumed(self, tensor: torch.Tensor) -> bool:
        """Whether what is known of ``tensor``, on a card, comes from random numbers."""
        return tensor.is_cuda and self._known.is_assumed(tensor)

    def is_drawn(self, tensor: torch.Tensor) -> bool:
        """The same, and not because other ranks are taken to have the same."""
        return self.is_assumed(tensor) and not self._known.is_of_all_ranks(tensor)

    def note_of_all_ranks(self, tensor: torch.Tensor) -> None:
        """What was written to ``tensor`` is certain if all ranks have the same."""
        if tensor.is_cuda:
            self._known.note_of_all_ranks(tensor)

    def keep(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """``tensor`` is all of its storage, and holds ``values`` from here on."""
        if tensor.is_cuda:
            self._known.keep(tensor, values)
        elif self.knows(tensor):
            tensor.detach().copy_(values)

    def overwrite(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """``values`` are written to ``tensor``, which may be a part of its storage."""
        if tensor.is_cuda:
            self._supposed.forget(tensor)
            self._known.overwrite(tensor, values, assumed=assumed)
        else:
            self.keep(tensor, values)

    def note(self, tensor: torch.Tensor, value: Scalar) -> None:
        """All elements of ``tensor`` are ``value`` from here on."""
        if tensor.is_cuda:
            self._known.note(tensor, value)
        elif self.knows(tensor):
            tensor.detach().fill_(value)

    def forget(self, tensor: torch.Tensor) -> None:
        """Nothing is known of ``tensor`` any more, if it is on a card; the host's memory stays what it is."""
        if tensor.is_cuda:
            self._known.forget(tensor)
            self._supposed.forget(tensor)

    def forget_draws(self) -> None:
        """A collective may have changed what was drawn just now."""
        self._drawn.forget_all()

    def exchange(self, given: torch.Tensor, received: torch.Tensor, rank: int, size: int) -> None:
        """Ranks have sent each other equal parts of ``given``; each is taken to have sent as this one.

        Of cards' tensors only counts that follow from a choice are so: what is known is of this rank alone.
        """
        if given.is_cuda:
            self._supposed.exchange(given, received, rank, size)
            return
        values = self.of(given)
        if values is not None and values.dim() and values.shape[0] % size == 0:
            self.keep(received, torch.cat(size * [values.chunk(size)[rank]]))
