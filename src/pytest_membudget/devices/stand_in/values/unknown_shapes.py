"""Shapes that depend on data nobody knows: by a choice that is supposed, or bounded.

Each is listed in the report with its line. What has neither is refused, and the error says what to write.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from ....assumptions import assumed
from ....caveats import DRAWN, GIVEN, WORST_CASE, Cause, Caveat
from ....tracking.roles.tensor_parts import tensors_in
from ....tracking.running_code.source import Place, SourceFinder
from ....units import times_text
from .known_values import KnownValues
from .routing import Chosen
from .sized_by_data import BY_ASSUME, Bound, Shape, SizedByData, trues
from .supposed_values import Choice, SupposedValues
from .variants import VARIANT, ended_text

#: What to do where the worst case of each mask is none of all together, as code checks.
_OF_DRAWS: Final = "; what the card draws is known where the host draws it, with a seed"


class _Line(NamedTuple):
    """A line whose sizes are not known: what it does, and what they were taken to be."""

    place: Place
    what: str
    taken: str
    kind: Cause = WORST_CASE


class UnknownShapes:
    """Gives those shapes, and keeps what was taken for granted of each line for the report."""

    def __init__(self, known: KnownValues, source: SourceFinder) -> None:
        self.supposed = SupposedValues(known)
        self._source = source
        self._known = known
        self._lines: Counter[_Line] = Counter()

    def of(self, sized: SizedByData, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Shape] | None:
        """The shapes of what an operator gives; None if unbounded."""
        given = [*tensors_in((*args, *kwargs.values()))]
        drawn = any(self._known.is_assumed(tensor) for tensor in given)
        shapes = sized.known(self._known, args, kwargs)
        if shapes is not None and not drawn:
            return shapes
        if (
            self.supposed.concerns(given)
            and (supposed := sized.known(self.supposed, args, kwargs)) is not None
        ):
            self.supposed.use(given)
            return supposed
        if shapes is None or not self._are_several(given):
            bound = self._bound(sized, args, kwargs, is_none=self._known.uniform(given[-1]) is False)
            if bound is not None:
                can_be_known = drawn and not bound.taken.endswith(BY_ASSUME)
                self._list(sized.operator, bound.taken + _OF_DRAWS * can_be_known)
                return bound.shapes
        if shapes is not None:
            self._list(sized.operator, "what its draws of random numbers are taken to give", DRAWN)
        return shapes

    def _are_several(self, given: Sequence[torch.Tensor]) -> bool:
        """Whether draws differ: one number throughout says nothing of how many there are of each."""
        is_spread = VARIANT.follows_spread(given[-1].numel(), self._place().name)
        return is_spread or any(self._known.uniform(tensor) is None for tensor in given)

    def _bound(
        self, sized: SizedByData, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_none: bool
    ) -> Bound | None:
        with VARIANT.sizes_at(self._place().name, is_none=is_none):
            return sized.bound(args, kwargs)

    def lengths(self, shape: tuple[int, ...]) -> torch.Tensor:
        """A mask of ``shape`` on the host in the place of one that nobody knows: true up to a bound."""
        length, taken = trues(shape[1])
        self._list(torch.ops.aten._nested_tensor_from_mask.default, taken)
        return (torch.arange(shape[1], device="cpu") < length).expand(shape)

    def see_choice(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """``operator`` has chosen: by data that nobody knows, if its result is not known."""
        choice = Chosen(operator, args, kwargs, result)
        if choice.is_followed and not self._known.knows(choice.tensor):
            what = f"chooses {choice.what()} by unknown data with {operator}, and sizes follow"
            self.supposed.choose(choice.tensor, choice.values(), Choice(self._place(), what, choice.taken()))

    def largest(self, operator: Any, tensor: torch.Tensor) -> int | None:
        """The largest of the whole numbers in ``tensor``, where the size of a result is up to it."""
        with torch._C._DisableTorchDispatch():  # the user's modes do not see it
            values, is_drawn = self.supposed.of(tensor), self._known.is_assumed(tensor)
        bins = assumed("bins")
        if values is not None and not is_drawn:
            self.supposed.use(tensor)
            return int(values.max())
        if bins is not None:
            self._list(operator, f"below {bins}{BY_ASSUME}")
            return int(bins) - 1
        if values is not None:
            self._list(operator, f"at most {int(values.max())}, as is drawn", DRAWN)
        return None if values is None else int(values.max())

    def caveats(self, root: str) -> list[Caveat]:
        """What was taken for granted of each line."""
        supposed = self.supposed
        choices = [(_line_of(choice), supposed.times[choice]) for choice in supposed.used]
        lines = (*choices, *self._lines.items())
        return [Caveat(line.kind, _text(line, times, root)) for line, times in lines]

    def _list(self, operator: Any, taken: str, kind: Cause = WORST_CASE) -> None:
        what = f"takes sizes from unknown data with {operator}"
        self._lines[_Line(self._place(), what, taken, _kind_of(taken, kind))] += 1

    @property
    def varies(self) -> bool:
        """Whether a size was taken from data that nobody knows, and that ``assume`` does not fix."""
        lines = (*map(_line_of, self.supposed.used), *self._lines)
        return any(line.kind is not GIVEN for line in lines)

    @property
    def may_leave_options(self) -> bool:
        """Whether something follows from a choice in which each option was chosen, and need not have been."""
        return not all(choice.taken.endswith(BY_ASSUME) for choice in self.supposed.used)

    def _place(self) -> Place:
        return self._source.place(3)


def _line_of(choice: Choice) -> _Line:
    return _Line(*choice, _kind_of(choice.taken))


def _kind_of(taken: str, kind: Cause = WORST_CASE) -> Cause:
    return GIVEN if taken.endswith(BY_ASSUME) else kind


def _text(line: _Line, times: int, root: str) -> str:
    text = f"{line.place.shown(root)} {line.what} ({times_text(times)}): taken to be {line.taken}"
    return text + ended_text(line.place, "size")
