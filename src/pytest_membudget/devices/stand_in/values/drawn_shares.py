"""How many of numbers that were just drawn lie beyond a bound: whether any does is often as good as certain.

``torch.nn.init.trunc_normal_`` draws again as long as any number lies outside of its bounds (from 2.12 on):
a hundred deviations away none does, and of a million numbers some lie beyond three. What is neither is read.
Any operator but those of such a loop ends what is followed, so no tensor is that was changed.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch

from .card_storages import Entry
from .known_values import KnownValues

aten = torch.ops.aten

#: What draws them.
DRAW: Final = aten.normal_.default
_BELOW: Final = frozenset({aten.lt.Scalar, aten.le.Scalar})
_ABOVE: Final = frozenset({aten.gt.Scalar, aten.ge.Scalar})
_UNION: Final = aten.bitwise_or.Tensor
_ANY: Final = aten.any.default
_WHERE: Final = aten.where.self

#: The operators of such a loop.
_FOLLOWED: Final = frozenset({DRAW, *_BELOW, *_ABOVE, _UNION, _ANY, _WHERE})

#: Of so many that are expected beyond a bound there is one: none is less likely than 1 in 10**27.
_SURELY_SOME: Final = 64.0
#: Of so few there is none in all but one of a million runs.
_SURELY_NONE: Final = 1e-6

is_of_draws: Callable[[Any], bool] = _FOLLOWED.__contains__


class _Bound(NamedTuple):
    is_above: bool
    value: float


class _Drawn(NamedTuple):
    """Numbers of a normal distribution, of which those beyond ``bounds`` were drawn again."""

    number: int
    mean: float
    deviation: float
    bounds: frozenset[_Bound] = frozenset()
    #: the share of those that were drawn last
    share: float = 1.0

    def share_beyond(self, bound: _Bound) -> float:
        distance = (bound.value - self.mean) / self.deviation
        return self.share * math.erfc((distance if bound.is_above else -distance) / math.sqrt(2)) / 2


class _Mask(NamedTuple):
    """Where ``drawn`` lies beyond ``bounds``: at this share of the places."""

    drawn: _Drawn
    bounds: frozenset[_Bound]
    share: float


class DrawnShares:
    """Of what was drawn just now, and of masks that were made of it since."""

    def __init__(self, known: KnownValues) -> None:
        self._known = known
        #: by storage
        self.notes = _Notes(known.storages)
        self._numbers = itertools.count()

    def saw(self, operator: Any, args: Sequence[Any], result: Any) -> None:
        """``operator`` ran; ``args`` have all that says what it does."""
        if operator is _ANY:
            if not self._known.knows(result):
                self._see_any(args[0], result)
            return
        note = self._drawn(*args) if operator is DRAW else self._made(operator, args)
        self.notes.forget(result)
        if note is not None:
            self.notes.enter(result, note)

    def _see_any(self, mask: torch.Tensor, result: torch.Tensor) -> None:
        note = self.notes.of_tensor(mask)
        expected = note.share * mask.numel() if isinstance(note, _Mask) else None
        if expected is not None and not _SURELY_NONE < expected < _SURELY_SOME:
            self._known.note(result, expected >= _SURELY_SOME)

    def _drawn(self, _: torch.Tensor, mean: float = 0.0, deviation: float = 1.0) -> _Drawn | None:
        return _Drawn(next(self._numbers), mean, deviation) if deviation > 0 else None

    def _made(self, operator: Any, args: Sequence[Any]) -> _Drawn | _Mask | None:
        notes = [self.notes.of_tensor(one) for one in args if isinstance(one, torch.Tensor)]
        if operator is _UNION:
            return _union(*notes) if len(notes) == 2 else None
        if operator is _WHERE:
            return self._drawn_again(*notes) if len(notes) == 3 else None
        [drawn], bound = notes, args[1]
        if not isinstance(drawn, _Drawn) or not isinstance(bound, (int, float)):
            return None
        beyond = _Bound(operator in _ABOVE, float(bound))
        if drawn.bounds and beyond not in drawn.bounds:
            return None
        return _Mask(drawn, frozenset({beyond}), drawn.share_beyond(beyond))

    def _drawn_again(self, mask: Any, drawn: Any, kept: Any) -> _Drawn | None:
        """What ``mask`` says of ``kept`` is drawn again."""
        if not isinstance(mask, _Mask) or mask.drawn != kept or not isinstance(drawn, _Drawn):
            return None
        same = (drawn.mean, drawn.deviation) == (kept.mean, kept.deviation) and not drawn.bounds
        if not same or not kept.bounds <= mask.bounds:
            return None
        return _Drawn(next(self._numbers), drawn.mean, drawn.deviation, mask.bounds, mask.share)


def _union(first: Any = None, second: Any = None) -> _Mask | None:
    """Of masks of the same numbers, on both sides: no number is beyond two bounds."""
    if not isinstance(first, _Mask) or not isinstance(second, _Mask) or first.drawn != second.drawn:
        return None
    bounds = first.bounds | second.bounds
    sides = sorted(bounds)
    is_apart = [one.is_above for one in sides] == [False, True] and sides[0].value <= sides[1].value
    return _Mask(first.drawn, bounds, first.share + second.share) if is_apart else None


class _Notes(KnownValues):
    """What a storage holds, as the classes above: nothing is written to it."""

    def of_tensor(self, tensor: torch.Tensor) -> Any:
        """What is noted of ``tensor``."""
        return self.stored(tensor) if self.storages.follows(tensor) else None

    def enter(self, tensor: torch.Tensor, note: Any) -> None:
        """``tensor`` is as ``note`` says, if it is all of a storage on a card, or of a hollow one."""
        if self.storages.follows(tensor) and self.is_whole(tensor):
            reference, key = self.storages.reference(tensor), self.storages.key(tensor)
            self._entries[key] = Entry(reference, note, tensor.dtype, True, tensor.numel())
