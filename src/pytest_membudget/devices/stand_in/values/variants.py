"""Variants: a test that read what nobody knows is run again, and is given other answers.

In variant 0 an answer is the plausible one. In the others a truth is turned, a number is another one of its
range (what ``argmax`` has chosen: of its options), and a draw of random numbers gives the other end of it;
not at the lines that are ``steady``. Of two lines, or of values that are read at once, no two numbers are the
same. Variant 2 also has the least sizes in
place of the largest, large numbers where variant 1 has small ones, the other end of draws between 0 and 1,
and turns every other truth. Variant ``ODD_NUMBERS`` is variant 0 but for numbers, those by which code finds
that something is wrong, for the truths that variant 2 leaves, for those of draws, for checks of what is
finite, which fail, and for masks, which select nothing. So is ``FALLING``, but for numbers, which fall at
each line from read to read; and
``LATE_WATCHDOG``, but for when NCCL's watchdog looks (``ranks/watchdog.py``), and ``FIRST_OPTIONS``, but for
options that nothing chooses (``routing``).
In all but 0 garbage is kept (``host/garbage.py``).
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import torch

from ....results.varied import (
    ALL_TRUTHS,
    CARD_DRAWS,
    ENDLESS,
    EVERYWHERE,
    FALLING,
    FIRST_OPTIONS,
    LATE_WATCHDOG,
    ODD_NUMBERS,
    OTHER_SEEDS,
    TURNED,
    UPPER_DRAWS,
    WAITING,
)
from ....tracking.running_code.source import Place
from .card_storages import Scalar

#: Other answers at one line: a loop until something holds ends then.
_MOST_TURNED: Final = 1000
#: The same of plausible ones: no step reads as many, so it is a loop that would never end.
_MOST_PLAUSIBLE: Final = 5_000
#: In place of 1, and more at further lines; no usual ends of a sequence.
_OTHER_WHOLE: Final = 4
#: Of so many lines, or values that are read at once, no two have the same.
_DIFFERENT: Final = 5
_LARGE_WHOLE: Final = 200
#: Sizes at one line that nobody knows, while they are the largest: experts of layers take many.
_MOST_SIZES: Final = 10_000
#: Reads that a further loop at the same line may wait.
_FEW: Final = 64
#: So many other numbers, one after the other, where a loop draws until it has the right one.
_DRAWN: Final = 64
#: Of more numbers that were drawn none differ: no code takes each of them.
_MOST_SPREAD: Final = 2**20
#: So many options are a vocabulary's tokens, of which one of the last may end a sequence.
_VOCABULARY: Final = 1000
_BELOW_ENDS: Final = 8
#: Beyond what losses and norms are compared with; of the larger one the exponential is still finite.
_SMALL: Final = 1e-3
_LARGE: Final = 100.0
#: By so much a loss goes up from one read to the next; of the last too the exponential is finite.
_LEAPS: Final = (1, 4, 6)
#: By so much it falls: more than an improvement has to be.
_FALL: Final = 0.05
#: In turn at each line; a loss that is no number is met again in the next step.
_ODD: Final = (-math.inf, math.nan, 0.0)
_ODD_WHOLE: Final = (0, -1)
#: Of the memory of an H100, 80 GiB: less than cards have that train, and more than any has (a B300: 288 GB).
_MEMORY_SHARES: Final = (1, 1 / 8, 4)
#: The largest number below 1 that fp32 has.
_ALMOST_ONE: Final = 1 - 2**-24
#: The first above 0.5 that bfloat16 has: no share that code compares draws with, as 0.5 is.
_MIDDLE: Final = 0.5 + 2**-8


class Variant:
    """How what nobody knows is answered in this process."""

    def __init__(self) -> None:
        self.number = self.seed = self._draws = 0
        #: the end of single draws of the host: 0 the lower, 1 the upper
        self.draw_end: int | None = None
        self.is_odd = self._is_falling = self.has_late_watchdog = self.keeps_garbage = False
        #: whether all rows choose the first options
        self.leaves_options = False
        self._steady: frozenset[str] = frozenset()
        #: lines at which truths are turned in each variant
        self._turned: frozenset[str] = frozenset()
        self._asked = Counter[str]()
        #: the lines in the order in which they were given other answers
        self._lines: dict[str, int] = {}
        #: texts of ``varied``: why another variant may give another figure
        self.unknown: set[str] = set()
        #: the lines of loops that a bound has ended
        self.ended = Counter[str]()
        #: how many sizes were taken at each line, and what the next is, of all; None: as the variant has it
        self._sizes = Counter[str]()
        self._share: int | None = None

    def begin(self, number: int, steady: Collection[str]) -> None:
        """A test begins. ``steady``: the lines whose answers stay plausible, as ``file:line``."""
        self.is_odd, self._is_falling = number == ODD_NUMBERS, number == FALLING
        self.has_late_watchdog = number == LATE_WATCHDOG
        self.leaves_options = number == FIRST_OPTIONS
        self._turned = frozenset(line for line in steady if line.startswith(TURNED))
        self._steady = frozenset(steady) - self._turned
        self.keeps_garbage = number > 0
        self.number = number if number in (1, 2) else 0
        self.seed = {OTHER_SEEDS: 1, UPPER_DRAWS: 2}.get(number, self.number)
        self.draw_end = self.seed - 1 if self.seed and EVERYWHERE not in self._steady else None
        self._asked.clear()
        self._lines.clear()
        self._sizes.clear()
        self._share, self._draws = None, 0
        self.unknown.clear()

    def answer(self, dtype: torch.dtype, plausible: Scalar, line: str) -> Scalar:
        """The answer to a read of ``dtype`` at ``line``: ``plausible``, or another."""
        return self.answers(dtype, plausible, line, 1)[0]

    def answers(self, dtype: torch.dtype, plausible: Scalar, line: str, count: int) -> list[Scalar]:
        """The same for a read of ``count`` values, which repeat what is given."""
        if dtype is torch.bool and TURNED + line in self._turned:
            return [not plausible]
        if self._is_falling and dtype.is_floating_point and not self._is_steady(line, is_truth=False):
            return [plausible if self._has_waited(line, _MOST_TURNED) else _LARGE - _FALL * self._asked[line]]
        if not self._turns(line, is_truth=dtype is torch.bool):
            return [plausible]
        place = self._place(line)
        if dtype is torch.bool and line in self.ended:
            return [not plausible]
        if self.is_odd and dtype is not torch.bool:
            return [_odd(dtype, self._asked[line] - 1)]
        indices = range(min(count, _DIFFERENT))
        if _is_whole(dtype) and dtype is not torch.bool:
            return [self._other_whole(dtype, place % _DIFFERENT - index) for index in indices]
        return [self._other(dtype, plausible, self._asked[line], place + index) for index in indices]

    def options(self, line: str, count: int, options: int) -> list[Scalar]:
        """The same for which of ``options`` were chosen; below zero, they are different."""
        most, different = max(abs(options), 1), options < 0
        turns = self._turns(line)
        if not turns:
            first = 1
        elif self.is_odd:
            first = (most - 1) * ((self._asked[line] - 1) % 2)
        else:
            first = (_last(most) if self.is_least else most // 2) + self._place(line) % _DIFFERENT
        several = different or (turns and not self.is_odd)
        return [(first - index) % most for index in range(min(count, most) if several else 1)]

    def _turns(self, line: str, *, is_truth: bool = False) -> bool:
        """Whether the next answer at ``line`` is another than is plausible."""
        turns = (self.number > 0 or self.is_odd) and not self._is_steady(line, is_truth)
        return turns != self._has_waited(line, _MOST_TURNED if turns else _MOST_PLAUSIBLE)

    def _is_steady(self, line: str, is_truth: bool) -> bool:
        return bool(self._steady & {line, EVERYWHERE}) or (is_truth and ALL_TRUTHS in self._steady)

    def _has_waited(self, line: str, most: int) -> bool:
        """Whether a loop has waited at ``line`` for ``most`` reads; then it may wait for a few, in turn.

        So who reads two truths there gets the same twice, and a further loop ends soon.
        """
        self._asked[line] += 1
        beyond = self._asked[line] - 1 - most
        if beyond < 0:
            return False
        self.ended.setdefault(line, most)
        return beyond % (most + _FEW) < most

    def drawn(self, values: torch.Tensor, line: str) -> torch.Tensor:
        """``values`` that were drawn, as they are read at ``line``: truths may be others within their range.

        The first read's alone: a later one may be certain, as that sampling has come to its last token, and a
        loop would not end with it. Where a loop waits for other ones, all are.
        """
        is_first = not self._asked[line]
        is_truth = values.dtype is torch.bool
        if is_first and not self._is_steady(line, is_truth):
            if self.is_odd:
                values = values.logical_not().to(values.dtype)  # of a count too: none, or some
            elif self.number == 1 and is_truth:
                values = torch.ones_like(values)
        if not self._has_waited(line, _MOST_TURNED if self.number else _MOST_PLAUSIBLE):
            return values
        if is_truth:
            return values.logical_not()
        number = self._asked[line] % _DRAWN
        return torch.full_like(values, number if _is_whole(values.dtype) else number / _DRAWN)

    def spread(self, count: int, span: int) -> torch.Tensor | None:
        """``count`` numbers of ``span`` drawn at once: in variant 1 they differ, also between draws.

        They lie all over the range, so that each part of it has its share of them.
        """
        if span < 2 or not _is_row(count):
            return None
        self.unknown.add(CARD_DRAWS)
        if not self._spreads:
            return None
        self._draws += 1
        numbers = torch.arange(count, device="cpu") * max(1, span // count)
        return numbers.add_(self._draws - 1).remainder_(span)

    def follows_spread(self, count: int, line: str) -> bool:
        """Whether sizes at ``line`` follow from so many that differ: a loop may wait for equal ones."""
        if not (self._spreads and _is_row(count)):
            return False
        self._sizes[line] += 1
        if self._sizes[line] > _MOST_TURNED:
            self.ended.setdefault(line, _MOST_TURNED)
        return self._sizes[line] <= _MOST_TURNED

    @property
    def _spreads(self) -> bool:
        return self.number == 1 and EVERYWHERE not in self._steady

    def _place(self, line: str) -> int:
        """Of ``line`` among those that were given other answers: by it two have different ones."""
        return self._lines.setdefault(line, len(self._lines))

    def _other(self, dtype: torch.dtype, plausible: Scalar, times: int, apart: int) -> Scalar:
        """The answer to the read ``times`` at a line, as ``apart`` from those of others."""
        if dtype is torch.bool:
            return plausible if self._leaves(times + apart) else not plausible
        # below any threshold, or above: a loss that goes down, so that who waits for its end goes on, or up,
        # by leaps at first
        if self.is_least:
            return _LARGE * _LEAPS[min(times, len(_LEAPS)) - 1] + times + apart
        return _SMALL / (times + apart)

    def _other_whole(self, dtype: torch.dtype, step: int) -> int:
        """``step``: from line to line up, in a list down: of that no larger ones, which may be places."""
        return min((_LARGE_WHOLE if self.is_least else _OTHER_WHOLE) + step, torch.iinfo(dtype).max)

    def _leaves(self, reads: int) -> bool:
        """Whether a truth stays as it is plausible, after so many reads, lines and values of one read."""
        if self.is_odd:
            return reads % 2 == 1
        # a run in place of one that raised turns all that one would have turned
        return self.is_least and not self._steady and reads % 2 == 0

    @property
    def memory_share(self) -> float:
        """How much memory a card has that nobody named, of that of the card which is modelled."""
        return 1 if EVERYWHERE in self._steady else _MEMORY_SHARES[self.number]

    @property
    def is_least(self) -> bool:
        """Whether sizes that nobody knows are the least that they may be, not the largest."""
        return self.number > 1

    def draw_option(self, options: int) -> int:
        """Which of so many options was drawn: the first, or one of the last."""
        return _last(options) if self.number else 0

    def counts(self, most: int, values: int) -> list[Scalar]:
        """So many ``values`` read at once, which repeat what is given: ``most``, or different ones."""
        differ = self.number == 1
        return [most - index for index in range(min(values, _DIFFERENT if differ else 1, most + 1))]

    @contextmanager
    def sizes_at(self, line: str, *, is_none: bool = False) -> Iterator[None]:
        """A context of ``share`` for a size at ``line``: who takes many gets all, or none, in turn.

        ``is_none``: whether there are none, as is plausible: with odd numbers all, if a check has failed.
        """
        self._sizes[line] += 1
        are_few = self.is_least or self.is_odd
        taken, most = self._sizes[line], _MOST_TURNED if are_few else _MOST_SIZES
        if are_few and taken > _FEW:
            self.unknown.add(WAITING)
        is_of_check = self.is_odd and is_none and CARD_DRAWS not in self.unknown  # of draws, none are odd
        self._share = 1 if is_of_check else None
        if taken > most:
            self._share = taken // _FEW % 2  # the same for two of one round
            self.ended.setdefault(line, most)
            if are_few:
                self.unknown.add(ENDLESS)
        try:
            yield
        finally:
            self._share = None

    def share(self, elements: int, *, may_be_none: bool = False) -> int:
        """How many of ``elements`` there are: all of them, or one; with odd numbers none, if there may be."""
        if self._share is not None:
            return self._share * elements
        if self.is_odd and may_be_none:
            return 0
        return min(1, elements) if self.is_least else elements

    def draw_within(self, low: int, high: int) -> int:
        """A whole number from ``low`` on and below ``high``."""
        return low if self.number else high - 1

    def draw_unit(self) -> float:
        """A number from 0 on and below 1."""
        self.unknown.add(CARD_DRAWS)
        return _ALMOST_ONE if self.seed == 2 else (_MIDDLE, 0.0)[self.number]


def ended_text(place: Place, what: str) -> str:
    """That a bound has ended the loop at ``place``, of so many ``what``; empty where none has."""
    rounds = VARIANT.ended[place.name]
    return f"; its loop, which waits for another answer, got one after {rounds:,} {what}s" if rounds else ""


def _is_row(count: int) -> bool:
    """Whether so many that are drawn at once may differ."""
    return 1 < count <= _MOST_SPREAD


def _last(options: int) -> int:
    return options - (1 if options < _VOCABULARY else _BELOW_ENDS)


def _odd(dtype: torch.dtype, before: int) -> Scalar:
    if _is_whole(dtype):
        return max(_ODD_WHOLE[before % len(_ODD_WHOLE)], torch.iinfo(dtype).min)
    return _ODD[before % len(_ODD)]


def _is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


#: Of this process, which runs one test.
VARIANT: Final = Variant()
