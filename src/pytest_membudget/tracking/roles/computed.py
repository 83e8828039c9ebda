"""Computed: finds what is computed from parameters and buffers alone, as operators run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from ..record import Record
from .tensor_parts import owns_storage, storage_begin, tensors_in

#: Called with a method of ``Record``, the tensors whose records it is called with, and its further arguments.
Note = Callable[..., None]
#: ``torch._C._current_graph_task_id`` outside of any backward.
NO_GRAPH_TASK: Final = -1
#: Operators that write all of their first argument, and read nothing of it.
_COPIES: Final = ("copy_", "_foreach_copy_")
#: Called with an operator's arguments and its result.
See = Callable[[Sequence[Any], Any], None]


class Computed:
    """Notes what operators give that read nothing but parameters, buffers, and what was computed from these.

    Whose memory an address is now is known to the history alone: that of a parameter that is gone stays known
    here until an operator writes something else there, and ``Record`` decides.
    """

    def __init__(self, note: Note, on_change: Callable[[], None]) -> None:
        """``on_change``: called after notes, before the next allocation."""
        self._note = note
        self._changed = on_change
        #: where the storages lie, and whether they were computed
        self._known: dict[int, bool] = {}

    def holds(self, tensor: torch.Tensor) -> None:
        """``tensor`` is a parameter or a buffer."""
        if owns_storage(tensor) and (address := storage_begin(tensor)):
            self._known[address] = False

    def held_in(self, values: Sequence[Any]) -> dict[int, torch.Tensor]:
        """Those of ``values`` that are parameters or buffers, by their places."""
        return {
            place: one for place, one in enumerate(values) if self._known.get(storage_begin(one)) is False
        }

    def made(self, target: Any, sources: Sequence[torch.Tensor]) -> None:
        """``target`` was computed from ``sources``, parameters and buffers, alone."""
        address = storage_begin(target)
        if address and address not in map(storage_begin, sources):
            self._known.setdefault(address, True)
            self._note(Record.note_computed, [target, *sources])
            self._changed()

    def seeing(self, operator: Any) -> See | None:
        """What is to be called after each run of ``operator``; None if it reads no tensor."""
        name = operator._schema.name.partition("::")[2]
        first, is_copy = _first_read(operator, skipped=name in _COPIES), name in _COPIES
        known, write = self._known, Record.note_copy if is_copy else Record.note_computed
        if first is None:
            return None

        def see(args: Sequence[Any], result: Any) -> None:
            if not known or first >= len(args):
                return
            source = _one(args[first])
            target = _one(args[0] if result is None else result)
            if storage_begin(source) in known:
                self._see(write, args, first, result)
            elif storage_begin(target) in known:
                self._written(target, is_new=target is not _one(args[0]))

        return see

    def _see(self, write: Callable[..., None], args: Sequence[Any], first: int, result: Any) -> None:
        if torch._C._current_graph_task_id() != NO_GRAPH_TASK and not torch.is_grad_enabled():
            return
        for sources, target in _pairs(args, first, result):
            addresses = [storage_begin(source) for source in sources]
            address = storage_begin(target)
            if not all(map(self._known.__contains__, addresses)) or _is_expanded(write, sources):
                self._written(target, is_new=write is Record.note_computed and address not in addresses)
            elif address and address not in addresses:  # without one it is nobody's: an empty tensor
                self._known.setdefault(address, True)
                self._note(write, [target, *sources])
                self._changed()

    def _written(self, target: torch.Tensor, *, is_new: bool) -> None:
        """Something else is written to ``target``; if ``is_new``, whoever had its memory is gone.

        What is written to a parameter is its value.
        """
        address = storage_begin(target)
        was_computed = self._known.get(address)
        if was_computed or is_new:
            self._known.pop(address, None)
        if was_computed:
            self._note(Record.note_computed, [target])
            self._changed()


def _first_read(operator: Any, *, skipped: bool) -> int | None:
    """Where ``operator`` takes the first tensor that it reads."""
    arguments = enumerate(operator._schema.arguments)
    found = [at for at, one in arguments if "Tensor" in str(one.type) and not one.kwarg_only]
    return next(iter(found[skipped:]), None)


def _one(value: Any) -> Any:
    """``value``, or the first of a list."""
    return next(iter(value), None) if isinstance(value, (list, tuple)) else value


def _pairs(args: Sequence[Any], first: int, result: Any) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """What each result is made of; operators on lists do the same with the members of each place.

    Lone numbers do not count: scales, norms.
    """
    read = args[first:]
    results = args[0] if result is None else result
    if not isinstance(results, (list, tuple)):
        results = (results,)
    lists = [one for one in read if isinstance(one, (list, tuple)) and _is_tensors(one, len(results))]
    for place, target in enumerate(results):
        if isinstance(target, torch.Tensor) and target.dim():
            sources = [one[place] for one in lists] or list(tensors_in(read))
            yield [one for one in sources if one.dim()], target


def _is_tensors(values: Sequence[Any], count: int) -> bool:
    return len(values) == count and all(isinstance(one, torch.Tensor) for one in values)


def _is_expanded(write: Callable[..., None], sources: Sequence[torch.Tensor]) -> bool:
    """Whether one value is copied to many places, as to each sample of a batch."""
    if write is not Record.note_copy:
        return False
    return any(
        not stride and size > 1
        for one in sources
        for stride, size in zip(one.stride(), one.shape, strict=True)
    )
