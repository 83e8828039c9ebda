"""What ``topk`` and ``argmax`` over data that nobody knows are taken to choose.

Whatever is taken could really happen: each row chooses ``count`` different ones, so that all experts together
get every token ``count`` times, no more and no less.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ....assumptions import assumed
from .options import choice_of, dimension_of, options_of
from .sized_by_data import BY_ASSUME
from .variants import VARIANT

aten = torch.ops.aten

#: Nobody routes to more experts; what chooses among more is a vocabulary's tokens, or positions.
_MOST_OPTIONS = 1024
#: Larger choices are not followed: 524,288 tokens with 8 experts each.
_MOST_CHOSEN = 2**22

#: Operators that choose experts.
_CHOOSE = frozenset({
    aten.topk.default, aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmin.default
})  # fmt: skip

#: Whether an operator chooses.
is_choice: Callable[[Any], bool] = _CHOOSE.__contains__


class Chosen:
    """What a call of an operator that chooses is taken to have chosen."""

    def __init__(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        source = args[0]
        #: the tensor that holds the choice
        self.tensor = choice_of(operator, result)
        self._dim = dimension_of(operator, args, kwargs)
        self._options = options_of(operator, args, kwargs)
        self._rows = source.numel() // max(self._options, 1)
        self._count = self.tensor.numel() // max(self._rows, 1)
        given = assumed("routing")
        self._is_given = given is not None
        self._how: str | float = given or _unknown()

    @property
    def is_followed(self) -> bool:
        """Whether it is small enough, and a choice at all."""
        return self._count <= self._options <= _MOST_OPTIONS and 0 < self.tensor.numel() <= _MOST_CHOSEN

    def values(self) -> torch.Tensor:
        """The choice, of the result's shape, on the host."""
        numbers = chosen(self._rows, self._options, self._count, self._how)
        shape = tuple(self.tensor.shape)
        if self._dim is None or len(shape) <= self._dim or self._count == 1:
            return numbers.reshape(shape)
        rest = [size for dim, size in enumerate(shape) if dim != self._dim]
        return numbers.reshape(*rest, self._count).movedim(-1, self._dim)

    def what(self) -> str:
        """What is chosen, for the report."""
        return f"{self._count} of {self._options}"

    def taken(self) -> str:
        """What that is taken to be, for the report; of an assumption it ends with ``BY_ASSUME``."""
        first = "the first" if self._count == 1 else f"the first {self._count}"
        how = self._how
        if how == "balanced":
            taken = "each as often as any other"
        elif how == "first":
            taken = f"{first} in all rows"
        elif how == "worst":
            few = f"{spread_rows(self._rows, self._options, self._count)} of {self._rows}"
            taken = f"{first} in all rows but {few}, which choose the others"
        else:
            taken = f"{first}, and the last, in {how:g} times an equal share of the rows each"
        if self._is_given:
            return f"{taken}{BY_ASSUME}"
        return f"{taken}: the worst case (pytest_membudget.assume(routing=...) changes that)"


def _unknown() -> str:
    """How is chosen where nothing is assumed."""
    if VARIANT.leaves_options:
        return "first"
    return "balanced" if VARIANT.is_least else "worst"


def chosen(rows: int, options: int, count: int, how: str | float) -> torch.Tensor:
    """``count`` different numbers below ``options`` for each of ``rows``; a host tensor (rows, count).

    Balanced, they take turns. At worst the first ``count`` are chosen by as many rows as can be while a few
    rows choose each of the others once: the most for one expert, and none idle. Experts run in their order,
    and backward in the other: what the first saved is alive when the others' gradients are there already.
    What is ``"first"`` is all that any row chooses: code may wait for an option that nothing chooses.
    With a number both the first and the last ``count`` are chosen by that many times an equal share of the
    rows, since the busy ones may be anywhere.
    """
    if how == "balanced":
        return _in_turn(rows, options, count)
    first = torch.arange(count, device="cpu")
    if how == "first":
        return first.expand(rows, count)
    if isinstance(how, float):
        busy = min(rows, math.ceil(how * rows * count / options))
        also = min(rows - busy, busy)
        last = (first + (options - count)).expand(also, count)
        return torch.cat([first.expand(busy, count), _between(rows - busy - also, options, count), last])
    spread = spread_rows(rows, options, count)
    others = (_in_turn(spread, options, count) + count).remainder_(options)
    return torch.cat([first.expand(rows - spread, count), others])


def spread_rows(rows: int, options: int, count: int) -> int:
    """Rows that it takes for each option but the first ``count`` to be chosen once; one row stays."""
    return max(0, min(rows - 1, math.ceil((options - count) / count)))


def _between(rows: int, options: int, count: int) -> torch.Tensor:
    """Those that are neither the first nor the last ``count``, in turn; all of them where those are few."""
    if options < 3 * count:
        return _in_turn(rows, options, count)
    return _in_turn(rows, options - 2 * count, count) + count


def _in_turn(rows: int, options: int, count: int) -> torch.Tensor:
    return torch.arange(rows * count, device="cpu").remainder_(options).reshape(rows, count)
