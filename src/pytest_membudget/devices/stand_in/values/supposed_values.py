"""Values that are supposed where nobody knows them: which experts a router chooses, and what follows.

Code that routes tokens makes shapes from a choice (``topk``, ``argmax``): masks, counts, the tokens of each
expert. One choice is supposed for all of them, so that they agree: experts together get each token as often
as it was sent, however they are distinguished. What is supposed decides shapes and what was counted, and no
other read: the token that a model samples stays unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ....tracking.roles.tensor_parts import tensors_in
from ....tracking.running_code.source import Place
from .card_storages import Entry, Scalar
from .known_values import KnownValues

aten = torch.ops.aten

#: Most elements of a tensor that is computed: 32 Mi cover 32,768 tokens with 8 of 128 experts, one-hot.
_MOST_ELEMENTS = 2**25

#: From what these make of a choice, code takes sizes.
_COUNT = frozenset({
    aten.sum, aten.cumsum, aten.count_nonzero, aten.bincount, aten.histc, aten.nonzero, aten.any, aten.all,
    aten._unique2, aten.unique_consecutive, aten.unique_dim, aten.masked_select,
})  # fmt: skip

#: Operators that write the numbers of their fourth argument to chosen places: weights, which are not 0.
_SCATTERS = frozenset({aten.scatter.src, aten.scatter_.src})

#: Operators that compare: what is chosen with as many labels, of which nobody knows how many agree.
COMPARES = frozenset({aten.eq.Tensor, aten.ne.Tensor})

#: A mask that nobody knows leaves at most all that the other one has.
_BOTH = frozenset({aten.bitwise_and.Tensor, aten.logical_and.default})


class Choice(NamedTuple):
    """A line that chooses, and what its choice was taken to be."""

    place: Place
    what: str
    taken: str


def counts(operator: Any) -> bool:
    """Whether ``operator`` counts: what it makes of a choice is what was supposed, in reads too."""
    return getattr(operator, "overloadpacket", None) in _COUNT


class SupposedValues(KnownValues):
    """Values that follow from a choice, over what is known (``known``).

    Of these ``is_assumed`` says whether they were counted.
    """

    most_input_elements = 2 * _MOST_ELEMENTS

    def __init__(self, known: KnownValues) -> None:
        super().__init__(known.storages)
        self._known = known
        self._choices: dict[int, frozenset[Choice]] = {}
        self._current: frozenset[Choice] = frozenset()
        self._is_count = False
        #: how often each line chose, and which choices have mattered
        self.times: dict[Choice, int] = {}
        self.used: dict[Choice, None] = {}

    def most_elements(self, dtype: torch.dtype) -> int:
        """How many elements a tensor of ``dtype`` may have to be computed."""
        return _MOST_ELEMENTS

    def choose(self, tensor: torch.Tensor, values: torch.Tensor, choice: Choice) -> None:
        """``tensor`` is what ``choice`` gave, and holds ``values``."""
        self.times[choice] = self.times.get(choice, 0) + 1
        self._current, self._is_count = frozenset({choice}), False
        self.keep(tensor, values)

    def concerns(self, values: Any) -> bool:
        """Whether something is supposed of a tensor among ``values``."""
        return bool(self._entries) and any(self._own(tensor) is not None for tensor in tensors_in(values))

    def use(self, values: Any) -> None:
        """What is supposed of the tensors among ``values`` has decided something: report it."""
        for tensor in tensors_in(values):
            if self._own(tensor) is not None:
                self.used.update(dict.fromkeys(self._choices[self.storages.key(tensor)]))

    def learn(
        self,
        lesson: Callable[..., None],
        operator: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """``operator`` ran on something supposed, and ``lesson`` is what it does to values."""
        if operator in COMPARES and args[0].shape == args[1].shape and args[0].numel() > 1:
            return
        found = [*tensors_in((*args, *kwargs.values()))]
        keys = [self.storages.key(one) for one in found if self._own(one) is not None]
        self._current = frozenset().union(*(self._choices[key] for key in keys))
        self._is_count = counts(operator)
        if operator in _SCATTERS:
            args = (*args[:3], self._or_ones(args[3]))
        elif operator in _BOTH:
            args = tuple(self._or_ones(tensor) for tensor in args)
        found = [*tensors_in((*args, *kwargs.values()))]
        needed = found[1:] if operator is aten.copy_.default else found
        if operator._schema.is_mutable and not all(self.knows(tensor) for tensor in needed):
            for tensor in found[:1]:
                self.forget(tensor)
        elif operator is aten.histc.default:
            self._learn_histogram(args, kwargs, result)
        else:
            lesson(self, args, kwargs, result)

    def _or_ones(self, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor``, or ones in place of what nobody knows."""
        if self.knows(tensor):
            return tensor
        return torch.ones(tuple(tensor.shape), dtype=tensor.dtype, device="cpu")

    def _learn_histogram(self, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor) -> None:
        """The host's own kernel takes no whole numbers."""
        values = self.of(args[0])
        if values is not None:
            self.keep(result, aten.histc.default(values.float(), *args[1:], **kwargs).to(result.dtype))

    def exchange(self, given: torch.Tensor, received: torch.Tensor, rank: int, size: int) -> None:
        """Ranks have sent each other parts of ``given``; each is taken to have sent as this one has."""
        values = self.of(given) if self.concerns(given) else None
        if values is not None and values.dim() and values.shape[0] % size == 0:
            self._current = self._choices[self.storages.key(given)]
            self._is_count = self.is_assumed(given)
            self.keep(received, torch.cat(size * [values.chunk(size)[rank]]))

    def writable(self, tensor: torch.Tensor, *, assumed: bool = False) -> torch.Tensor | None:
        """``tensor``'s values for an operator to write to: of what is known a copy."""
        entry = self._entry(tensor)
        follows = self.storages.follows(tensor)
        if follows and entry is not None and self._own(tensor) is None:
            values = entry.values.clone() if isinstance(entry.values, torch.Tensor) else entry.values
            self._put(tensor, entry._replace(values=values, assumed=assumed))
        elif follows and entry is not None:
            self._put(tensor, entry._replace(assumed=entry.assumed or assumed))
        return super().writable(tensor, assumed=assumed)

    def forget_at(self, key: int) -> None:
        """Nothing is supposed any more of the storage with this ``key``."""
        self._entries.pop(key, None)
        self._choices.pop(key, None)

    def _own(self, tensor: torch.Tensor) -> Entry | None:
        return super()._entry(tensor) if self._entries and self.storages.follows(tensor) else None

    def _entry(self, tensor: torch.Tensor) -> Entry | None:
        return self._own(tensor) or self._known._entry(tensor)

    def _enter(self, tensor: torch.Tensor, values: torch.Tensor | Scalar, assumed: bool) -> None:
        is_assumed = assumed or self._is_count
        self._put(tensor, Entry(lambda: None, values, tensor.dtype, is_assumed, tensor.numel()))

    def _placed(self, tensor: torch.Tensor, values: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
        return values  # what is supposed is no content of the storage

    def _put(self, tensor: torch.Tensor, entry: Entry) -> None:
        """Values may be large: they are let go of with their storage."""
        key, entries, choices = self.storages.key(tensor), self._entries, self._choices

        def gone(reference: object) -> None:
            entry = entries.get(key)
            if entry is not None and entry.storage is reference:
                del entries[key]
                choices.pop(key, None)

        choices[key] = self._current | choices.get(key, frozenset())
        entries[key] = entry._replace(storage=self.storages.reference(tensor, gone))
