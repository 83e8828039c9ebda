"""Matches head and base: their phases, and their holders where lines have moved and names have changed."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ..components import BUFFERS, FROZEN_PARAMETERS, GRADIENTS, OPTIMIZER_STATES, PARAMETERS
from ..memory_report import Holder, MemoryReport, PhasePeak, module_pattern
from ..results.comparison import COMPARED, PEAK, Finding, RunDifference
from ..units import gib_text

#: What findings compare.
Held = MemoryReport | PhasePeak

_NAME = re.compile(r"[^\W\d]\w*")
#: A holder that only one list of the largest has may have been too small for the other list. It counts as
#: new if it is larger than this times what the other list leaves out.
_GROWTH_OF_UNLISTED = 2


def same_phase(head: MemoryReport, base: MemoryReport) -> tuple[Held, Held]:
    """The peaks of ``head`` and ``base`` in the phase in which the larger one is.

    The reports themselves where one of them has no peak of that phase: metrics other than ``allocated``,
    formulas, steps without a backward.
    """
    phase = (head if head.peak_bytes > base.peak_bytes else base).phase
    pair = head.in_phase(phase), base.in_phase(phase)
    return (pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else (head, base)


def moved_peak(head: MemoryReport, base: MemoryReport) -> tuple[RunDifference, ...]:
    """The peaks' phases, where they differ and one phase of both is compared; and what that takes."""
    now, before = same_phase(head, base)
    if head.phase == base.phase or now.phase != before.phase:
        return ()
    sizes = gib_text(now.peak_bytes), gib_text(before.peak_bytes)
    compared = RunDifference(COMPARED, *sizes, (now.phase,))
    return RunDifference(PEAK, head.phase, base.phase), compared


@dataclass(frozen=True, slots=True)
class Pair:
    """A holder of the head and the same one of the base; None where it is new or gone."""

    head: Holder | None
    base: Holder | None

    @property
    def bytes(self) -> int:
        """Head minus base."""
        return (self.head.bytes if self.head else 0) - (self.base.bytes if self.base else 0)

    @property
    def holder(self) -> Holder:
        """The head's holder if it is new or has grown, else the base's."""
        holder = self.base if self.head is None or (self.bytes < 0 and self.base) else self.head
        assert holder is not None
        return holder


#: What has ``bytes``, head minus base.
_Sized = TypeVar("_Sized", Pair, Finding)


def matched(head: Held, base: Held) -> tuple[list[Pair], Mapping[str, int]]:
    """The holders of ``head`` and ``base``, matched by the surest keys first, and what they leave.

    Without pairs that cancel each other. The rest is head minus base of each component, in bytes, that no
    pair accounts for.
    """
    pairs = [*(Pair(one, None) for one in head.holders), *(Pair(None, one) for one in base.holders)]
    for key in _SAME:
        pairs = _joined(pairs, key, _line)
    unequal = pairs
    for key in _EQUAL:
        unequal, _ = cancelling(unequal, partial(_name_of, key=key))
    uncertain = [pair for pair in unequal if _may_be_unlisted(pair, head, base)]
    left = [pair for pair in unequal if pair not in uncertain]
    left = _joined(left, _REWRITTEN, lambda pair: -pair.holder.bytes)
    rest = Counter(head.components)
    rest.subtract(base.components)
    for pair in pairs:
        if pair not in uncertain:
            rest.subtract({pair.head.component: pair.head.bytes} if pair.head else {})
            rest.update({pair.base.component: pair.base.bytes} if pair.base else {})
    return left, rest


def _may_be_unlisted(pair: Pair, head: Held, base: Held) -> bool:
    """Whether the other side may have the holder too: reports name only the largest."""
    if pair.head is not None and pair.base is not None:
        return False
    other = base if pair.base is None else head
    component = pair.holder.component
    named_bytes = sum(one.bytes for one in other.holders if one.component == component)
    unnamed_bytes = other.components.get(component, 0) - named_bytes
    least_bytes = min((one.bytes for one in other.holders), default=unnamed_bytes)
    return pair.holder.bytes <= _GROWTH_OF_UNLISTED * min(least_bytes, unnamed_bytes)


def _features(holder: Holder) -> dict[str, str | None]:
    """What keys are made of; None for what ``holder`` does not have."""
    names: dict[str, str] = {}
    shape = _NAME.sub(lambda name: names.setdefault(name[0], f"_{len(names)}"), holder.source or "")
    return {
        "component": holder.component,
        "module": module_pattern(holder.module),
        "operator": holder.operator,
        "location": holder.location,
        "file": holder.location.rpartition(":")[0] if holder.location is not None else None,
        "size": str(holder.bytes) if holder.component in _NAMED else "",
        "source": holder.source or None,
        "caller": next(iter(holder.details), None),
        "line": holder.source or holder.location or None,
        "shape": shape or None,
    }


#: Components whose modules are names of tensors, of which one line moves all: ``model.cuda()``.
_NAMED = (PARAMETERS, FROZEN_PARAMETERS, BUFFERS, GRADIENTS, OPTIMIZER_STATES)
#: Features of holders, by which they are matched; holders that lack the last one have no such key.
_Key = tuple[str, ...]

#: Keys that match holders of any size, the surest first. A matched holder is not matched again.
_SAME: tuple[_Key, ...] = (
    ("component", "module", "operator", "file", "caller", "source"),
    ("component", "module", "operator", "file", "source"),  # called by another line
    ("component", "module", "operator", "source"),  # in another file
    ("component", "operator", "size", "source"),  # in a renamed module
    ("location", "module", "operator", "component"),
)
#: Keys that match two holders if one has grown by as many bytes as the other has shrunk.
_EQUAL: tuple[_Key, ...] = (
    ("operator", "file", "line"),  # of another component: a parameter that was frozen, for example
    ("component", "operator", "shape"),  # with other names
    ("component", "module", "operator"),  # also where both have no module
)
#: Finds a rewritten line, in the same module and file.
_REWRITTEN: _Key = ("component", "module", "operator", "file")


def _joined(pairs: list[Pair], key: _Key, order: Callable[[Pair], int]) -> list[Pair]:
    """``pairs``, with new and removed holders that have the same ``key`` joined, in ``order``."""
    gone = _by([pair for pair in pairs if pair.head is None], key)
    found: list[Pair] = []
    joined: set[int] = set()
    for name, some in _by([pair for pair in pairs if pair.base is None], key).items():
        for new, old in _in_order(some, gone.get(name, []), order):
            found.append(Pair(new.head, old.base))
            joined |= {id(new), id(old)}
    return [*found, *(pair for pair in pairs if id(pair) not in joined)]


def _in_order(new: list[Pair], old: list[Pair], order: Callable[[Pair], int]) -> Iterable[tuple[Pair, Pair]]:
    """Pairs of one of each side in ``order``; if one side has more, those of equal size first."""
    new, old = sorted(new, key=order), sorted(old, key=order)
    if len(new) != len(old):
        for pair in list(new):
            same = next((one for one in old if one.bytes == -pair.bytes), None)
            if same is not None:
                yield pair, same
                new.remove(pair)
                old.remove(same)
    yield from zip(new, old, strict=False)


def cancelling(
    items: Sequence[_Sized], key: Callable[[_Sized], Hashable | None]
) -> tuple[list[_Sized], list[tuple[_Sized, _Sized]]]:
    """``items`` without two that have the same ``key`` and opposite bytes, and these pairs."""
    opposite: dict[Hashable, list[_Sized]] = defaultdict(list)
    pairs: list[tuple[_Sized, _Sized]] = []
    for item in items:
        name = key(item)
        if name is None or not item.bytes:
            continue
        if opposite[name, -item.bytes]:
            pairs.append((opposite[name, -item.bytes].pop(), item))
        else:
            opposite[name, item.bytes].append(item)
    gone = {id(one) for pair in pairs for one in pair}
    return [item for item in items if id(item) not in gone], pairs


def _by(pairs: list[Pair], key: _Key) -> dict[Hashable, list[Pair]]:
    groups: dict[Hashable, list[Pair]] = defaultdict(list)
    for pair in pairs:
        name = _name_of(pair, key)
        if name is not None:
            groups[name].append(pair)
    return groups


def _name_of(pair: Pair, key: _Key) -> Hashable | None:
    features = _features(pair.holder)
    return tuple(features[name] for name in key) if features[key[-1]] is not None else None


def _line(pair: Pair) -> int:
    number = (pair.holder.location or "").rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
