"""What draws of random numbers are taken to give: values in their range, the same in every run.

An estimate must not change from run to run, and code that decides by a draw must come to an end: a draw of
one number in [0, 1) is taken to be hardly above 0.5, so that what is likely happens; a whole number is the
largest of its range, which makes the larger shape; a permutation changes nothing. Other variants have the
other ends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .known_values import KnownValues, plausible
from .variants import VARIANT

aten = torch.ops.aten

#: ``draw(known, args, kwargs, result)`` notes what a draw is taken to have given.
Draw = Callable[[KnownValues, Sequence[Any], Mapping[str, Any], torch.Tensor], None]

#: Longer permutations are not known.
_MOST_PERMUTED = 2**22


def _uniform(
    known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor
) -> None:
    low = args[1] if len(args) > 1 else 0.0
    high = args[2] if len(args) > 2 else 1.0
    if result.numel() == 1 and known.is_whole(result):
        known.note(result, low + (high - low) * VARIANT.draw_unit(), assumed=True)


def _random(known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor) -> None:
    if not known.is_whole(result):
        return
    if len(args) == 1:
        # any number at all: a seed that nobody gave, and on which nothing depends
        known.note(result, plausible(result.dtype))
    else:
        low, high = args[1:3] if len(args) > 2 else (0, args[1])
        _note_within(known, result, low, high)


def _permutation(
    known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor
) -> None:
    if result.numel() <= _MOST_PERMUTED:
        order = torch.arange(result.numel(), dtype=result.dtype)
        known.keep(result, order.flip(0) if VARIANT.number else order, assumed=True)


def _sample(known: KnownValues, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor) -> None:
    options, count = args[0].shape[-1], args[1]
    first = VARIANT.draw_option(options)
    if len(args) > 2 and args[2]:  # with replacement
        known.note(result, first, assumed=True)
    else:
        sample = (torch.arange(count) + first).remainder_(max(options, 1))
        known.keep(result, sample.expand(tuple(result.shape)).contiguous(), assumed=True)


def _note_within(known: KnownValues, result: torch.Tensor, low: int, high: int | None) -> None:
    """The largest: what is drawn is a length or a place more often than not, and shapes are made of it."""
    spread = None if high is None else VARIANT.spread(result.numel(), high - low)
    if spread is not None:
        known.keep(result, (spread + low).to(result.dtype).view(result.shape), assumed=True)
    else:
        known.note(result, max(1, low) if high is None else VARIANT.draw_within(low, high), assumed=True)


#: By the operators that draw on a card: ``rand`` and ``randint`` fill an empty tensor by these.
_DRAWS: Mapping[Any, Draw] = {
    aten.uniform_: _uniform,
    aten.random_: _random,
    aten.randperm: _permutation,
    aten.multinomial: _sample,
}


def drawing_of(operator: Any) -> Draw | None:
    """What to note of a call of ``operator``; None if it draws nothing, or nothing that is followed."""
    return _DRAWS.get(operator.overloadpacket)
