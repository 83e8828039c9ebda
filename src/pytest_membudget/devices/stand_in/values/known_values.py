"""What is known of the values in tensors without data, by storage.

Such a tensor holds nothing that was computed, yet many values follow from the program alone: positions,
masks made from shapes, token ids given in the test, a GradScaler's ``found_inf``. A small tensor's values are
kept in a separate host storage; of a tensor whose elements are all the same, that one value.
``learning`` says what each operator does to them.
"""

from collections.abc import Collection

import torch

from .card_storages import CardStorages, Entry, Scalar

#: Most elements of a tensor whose values are computed during the run, which must stay cheap: whole
#: numbers and masks decide what code does, other numbers are mostly activations.
_MOST_WHOLE_NUMBERS = 2**16
_MOST_BOOLEANS = 2**20
_MOST_NUMBERS = 2**12

#: Entries of dead storages are thrown out when there are more entries than this.
_MANY = 4096

_REAL = (torch.Tensor, torch.nn.Parameter)


class KnownValues:
    """Values by storage: a real host storage for small ones, one value for uniform ones."""

    #: Inputs larger than this are not computed with, uniform or not.
    most_input_elements = 2**20

    def __init__(self, storages: CardStorages) -> None:
        self.storages = storages
        self._entries: dict[int, Entry] = {}
        self._many = _MANY

    def most_elements(self, dtype: torch.dtype) -> int:
        """How many elements a tensor of ``dtype`` may have to be computed."""
        if dtype is torch.bool:
            return _MOST_BOOLEANS
        return _MOST_NUMBERS if dtype.is_floating_point or dtype.is_complex else _MOST_WHOLE_NUMBERS

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values of ``tensor`` as a real host tensor of its shape, if they are known; read only."""
        if not self.storages.follows(tensor):
            return tensor.detach() if type(tensor) in _REAL and tensor.device.type == "cpu" else None
        entry = self._entry(tensor)
        if entry is None:
            return None
        if isinstance(entry.values, torch.Tensor):
            return _seen_as(tensor, entry.values)
        if entry.dtype is not tensor.dtype:
            return None
        return torch.tensor(entry.values, dtype=tensor.dtype).expand(tuple(tensor.shape))

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether something is known of ``tensor``; cheaper than ``of``, which may still give None."""
        if not self.storages.follows(tensor):
            return type(tensor) in _REAL
        return self._entry(tensor) is not None

    def uniform(self, tensor: torch.Tensor) -> Scalar | None:
        """The one value of all elements of ``tensor``, if that is what is known of it."""
        entry = self._entry(tensor)
        if entry is not None and not isinstance(entry.values, torch.Tensor):
            return entry.values if entry.dtype is tensor.dtype else None
        values = self.of(tensor)
        if values is None or not values.numel():
            return None
        for dim, stride in enumerate(values.stride()):
            if stride == 0:  # an expanded tensor may be larger than memory
                values = values.narrow(dim, 0, 1)
        first = values[(0,) * values.dim()]
        return first.item() if values.numel() == 1 or bool((values == first).all()) else None

    def is_assumed(self, tensor: torch.Tensor) -> bool:
        """Whether what is known of ``tensor`` is plausible only: it comes from a draw of random numbers."""
        entry = self._entry(tensor)
        return entry is not None and entry.assumed

    def is_of_all_ranks(self, tensor: torch.Tensor) -> bool:
        """Whether what is known of ``tensor`` is certain if all ranks have the same."""
        entry = self._entry(tensor)
        return entry is not None and entry.is_of_all_ranks

    def note_of_all_ranks(self, tensor: torch.Tensor) -> None:
        """What was written to ``tensor``, all of a storage, is certain if all ranks have the same."""
        entry = self._entry(tensor)
        if entry is not None and self.is_whole(tensor):
            self._entries[self.storages.key(tensor)] = entry._replace(is_of_all_ranks=True)

    def note(self, tensor: torch.Tensor, value: Scalar, *, assumed: bool = False) -> None:
        """All elements of ``tensor``'s storage are ``value``."""
        if isinstance(value, (bool, int, float, complex)):
            self._enter(tensor, value, assumed)

    def keep(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """``tensor``, which is all of its storage, holds ``values``: a host tensor that nobody else has."""
        if not self.is_whole(tensor):
            return
        count = tensor.numel()
        if values.stride() != tensor.stride() or values.untyped_storage().nbytes() != count * values.itemsize:
            original, values = values, torch.empty_strided(tensor.shape, tensor.stride(), dtype=values.dtype)
            values.copy_(original)
        self._enter(tensor, values.as_strided((count,), (1,)), assumed)

    def overwrite(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """``values`` are written to ``tensor``, which may be a part of its storage."""
        part = None if self.is_whole(tensor) else self.writable(tensor, assumed=assumed)
        if part is not None:
            part.copy_(values)
        else:
            self.forget(tensor)
            self.keep(tensor, values, assumed=assumed)

    def stored(self, tensor: torch.Tensor) -> torch.Tensor | Scalar | None:
        """All elements of ``tensor``'s storage in its type, flat on the host, or their one value."""
        entry = self._entry(tensor)
        return entry.values if entry is not None and entry.dtype is tensor.dtype else None

    def writable(self, tensor: torch.Tensor, *, assumed: bool = False) -> torch.Tensor | None:
        """``tensor``'s values for an operator to write to, ``assumed`` from then on if it says so."""
        if not self.storages.follows(tensor) or (entry := self._entry(tensor)) is None:
            return None
        values = entry.values
        if not isinstance(values, torch.Tensor):
            if entry.elements > self.most_elements(entry.dtype):
                return None
            values = torch.full((entry.elements,), values, dtype=entry.dtype, device="cpu")
            values = self._placed(tensor, values)
        if values is not entry.values or assumed:
            self._entries[self.storages.key(tensor)] = entry._replace(
                values=values, assumed=entry.assumed or assumed, is_of_all_ranks=False
            )
        return _seen_as(tensor, values)  # type: ignore[arg-type] # a tensor's place is a tensor

    def is_whole(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` is all of its storage, each element once."""
        if not self.storages.is_whole(tensor):
            return False
        entry = self._entry(tensor)
        return entry is None or entry.elements * entry.dtype.itemsize <= tensor.numel() * tensor.itemsize

    @property
    def keys(self) -> Collection[int]:
        """Of the storages of which anything is noted, as ``storages`` gives them: always the same object."""
        return self._entries

    def forget(self, tensor: torch.Tensor) -> None:
        """Nothing is known of ``tensor``'s storage any more."""
        if self._entries:
            self.forget_at(self.storages.key(tensor))

    def forget_all(self) -> None:
        """Nothing is known of any tensor any more."""
        self._entries.clear()

    def forget_at(self, key: int) -> None:
        """Nothing is known any more of the storage with this ``key``."""
        self._entries.pop(key, None)

    def _entry(self, tensor: torch.Tensor) -> Entry | None:
        if not self._entries:
            return None
        entry = self._entries.get(self.storages.key(tensor))
        return entry if entry is not None and self.storages.holds(entry, tensor) else None

    def _enter(self, tensor: torch.Tensor, values: torch.Tensor | Scalar, assumed: bool) -> None:
        if len(self._entries) > self._many:
            for key in [key for key, entry in self._entries.items() if entry.storage() is None]:
                del self._entries[key]
            self._many = max(_MANY, 2 * len(self._entries))
        storages = self.storages
        placed = self._placed(tensor, values)
        self._entries[storages.key(tensor)] = Entry(
            storages.reference(tensor), placed, tensor.dtype, assumed, tensor.numel()
        )

    def _placed(self, tensor: torch.Tensor, values: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
        return self.storages.written(tensor, values)


def plausible(dtype: torch.dtype) -> Scalar:
    """The answer to a read of unknown data: 1 of any number type, False of a boolean.

    True for every boolean would skip layers (layer drop) and loop for ever (``trunc_normal_``).
    """
    if dtype is torch.bool:
        return False
    if dtype.is_complex:
        return complex(1)
    return 1.0 if dtype.is_floating_point else 1


def _seen_as(tensor: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """The part of the storage ``flat`` that ``tensor`` shows, in its own type."""
    if flat.dtype is not tensor.dtype:
        flat = flat.view(tensor.dtype)
    return flat.as_strided(tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
