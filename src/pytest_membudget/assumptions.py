"""``pytest_membudget.assume``: what a test assumes of data that an estimate cannot know.

It imports neither torch nor the rest of this package, so tests may call it in any process. Outside of an
estimate it has no effect: a run on a GPU has real data.
"""

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

Number = bool | int | float
Routing = Literal["worst", "balanced"] | float

#: Of a library whose ranks take the same, whatever they do once they have asked which they are.
IDENTICAL_RANKS: Final = "identical_ranks"

#: Active assumptions, the innermost last. One list for the process: a backward may run in another thread.
_active: list[Mapping[str, Any]] = []


class Assumption(contextlib.ContextDecorator):
    """The value of ``assume``: a context manager and a decorator."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __enter__(self) -> None:
        _active.append(self._values)

    def __exit__(self, *error: object) -> None:
        _active.reverse()
        _active.remove(self._values)  # the innermost of equal ones
        _active.reverse()


def assume(
    *,
    true_fraction: float | None = None,
    distinct_fraction: float | None = None,
    repeats: float | None = None,
    bins: int | None = None,
    routing: Routing | None = None,
    value: Number | None = None,
) -> Assumption:
    """Assume properties of data, for the code inside ``with``; put backward inside too.

    Data that the program itself determines is computed, whatever is assumed. Blocks nest: for each argument,
    the innermost block that has it counts.

    - ``true_fraction``: of a mask, the share that is true, 0 to 1 (by default all of it). Boolean indexing,
      ``nonzero``, ``torch.where(mask)``, ``masked_select``, ``argwhere``.
    - ``distinct_fraction``: of a tensor's elements, the share that ``unique`` keeps, 0 to 1 (by default all).
    - ``repeats``: how often ``repeat_interleave`` with a tensor repeats on average (by default an error).
    - ``bins``: the length of what ``bincount`` gives, and classes of ``one_hot`` (by default
      ``minlength``, or an error).
    - ``routing``: how ``topk`` and ``argmax`` choose, of tokens and experts: ``"worst"`` (the default),
      ``"balanced"``, or the busiest expert's share over an equal one, 1 or more.
    - ``value``: what reads (``item()``, ``if tensor:``) of unknown data give: ``True`` or ``False`` for
      booleans, an ``int`` for whole numbers, a ``float`` for the others (by default ``False``, 1, 1.0).

    Raises ``TypeError`` or ``ValueError`` for what cannot be meant.
    """
    given = {name: one for name, one in locals().items() if one is not None}
    for name, one in given.items():
        _check(name, one)
    if not given:
        raise TypeError(
            "assume() has no argument: write what to assume, as in "
            "assume(true_fraction=0.15) or assume(routing='balanced')"
        )
    return Assumption(given)


def assumed(name: str) -> Any:
    """The value of ``name``, an argument of ``assume``, in the innermost block that has it; else None."""
    return next((one[name] for one in reversed(_active) if name in one), None)


def assumed_value(kind: type) -> Any:
    """The assumed value of reads of ``kind`` (``bool``, ``int``, ``float``); None if none is."""
    return next((one["value"] for one in reversed(_active) if type(one.get("value")) is kind), None)


def _is_number(value: Any, least: float, most: float = sys.float_info.max) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


#: By argument: whether it takes a value, what it takes, and an example.
_ARGUMENTS: Final[Mapping[str, tuple[Callable[[Any], bool], str, str]]] = {
    "true_fraction": (lambda one: _is_number(one, 0, 1), "a share between 0 and 1", "0.15"),
    "distinct_fraction": (lambda one: _is_number(one, 0, 1), "a share between 0 and 1", "0.15"),
    "repeats": (lambda one: _is_number(one, 0), "a number from 0 up", "2.0"),
    "bins": (lambda one: isinstance(one, int) and _is_number(one, 1), "a whole number from 1 up", "64"),
    "routing": (
        lambda one: one in ("worst", "balanced") if isinstance(one, str) else _is_number(one, 1),
        "'worst', 'balanced', or how many times an equal share the busiest expert gets (1 or more)",
        "'balanced') or assume(routing=1.25",
    ),
    "value": (lambda one: isinstance(one, (bool, int, float)), "a bool, an int or a float", "0.0"),
}


def _check(name: str, value: Any) -> None:
    takes, meant, example = _ARGUMENTS[name]
    if not takes(value):
        kind = (
            ValueError if isinstance(value, (str, int, float)) and not isinstance(value, bool) else TypeError
        )
        shown = f"assume({name}={value!r}) cannot be used: {name} is {meant}"
        raise kind(f"{shown}; write assume({name}={example})")
