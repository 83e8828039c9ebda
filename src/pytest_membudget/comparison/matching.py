"""Matches the holders of head and base, where lines have moved and names have changed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from ..memory_report import Holder, module_pattern
from .phases import Held

_NAME = re.compile(r"[^\W\d]\w*")
#: A holder that only one list of the largest has may have been too small for the other list. It counts as
#: new if it is larger than this times what the other list leaves out.
_GROWTH_OF_UNLISTED = 2


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


@dataclass(frozen=True, slots=True)
class HolderMatching:
    """The holders of two reports, matched."""

    pairs: tuple[Pair, ...]
    """Without pairs that cancel each other."""
    rest: Mapping[str, int]
    """Head minus base of each component, in bytes, that no pair accounts for."""


_Key = Callable[[Holder], Hashable | None]


def matching_of(head: Held, base: Held) -> HolderMatching:
    """The holders of ``head`` and ``base``, matched by the surest keys first."""
    pairs = [*(Pair(one, None) for one in head.holders), *(Pair(None, one) for one in base.holders)]
    for key in _SAME:
        pairs = _joined(pairs, key, _line)
    unequal = pairs
    for key in _EQUAL:
        unequal = _without_equal(unequal, key)
    uncertain = [pair for pair in unequal if _may_be_unlisted(pair, head, base)]
    left = [pair for pair in unequal if pair not in uncertain]
    left = _joined(left, _module_in_file, _size)
    rest = Counter(head.components)
    rest.subtract(base.components)
    for pair in pairs:
        if pair not in uncertain:
            rest.subtract({pair.head.component: pair.head.bytes} if pair.head else {})
            rest.update({pair.base.component: pair.base.bytes} if pair.base else {})
    return HolderMatching(tuple(left), rest)


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


def _place(holder: Holder) -> tuple[str, str | None, str]:
    return holder.component, module_pattern(holder.module), holder.operator


def _file(holder: Holder) -> str | None:
    return holder.location.rpartition(":")[0] if holder.location is not None else None


def _same_line(holder: Holder) -> Hashable | None:
    return (*_place(holder), _file(holder), holder.source) if holder.source else None


def _line_in_another_file(holder: Holder) -> Hashable | None:
    return (*_place(holder), holder.source) if holder.source else None


def _same_text(holder: Holder) -> Hashable | None:
    """The key that finds a renamed module."""
    return (holder.component, holder.operator, holder.source) if holder.source else None


def _same_location(holder: Holder) -> Hashable:
    return (*_place(holder), holder.location)


def _line_of_any_component(holder: Holder) -> Hashable | None:
    """The key that finds memory of another component: a parameter that was frozen, for example."""
    text = holder.source or holder.location
    return (holder.operator, _file(holder), text) if text else None


def _text_in_other_names(holder: Holder) -> Hashable | None:
    names: dict[str, str] = {}
    shape = _NAME.sub(lambda name: names.setdefault(name[0], f"_{len(names)}"), holder.source or "")
    return (holder.component, holder.operator, shape) if shape else None


def _same_module(holder: Holder) -> Hashable | None:
    return _place(holder) if holder.module is not None else None


def _module_in_file(holder: Holder) -> Hashable | None:
    """The key that finds a rewritten line, in the same module and file."""
    return (*_place(holder), _file(holder)) if holder.location is not None else None


#: Keys that match holders of any size, the surest first. A matched holder is not matched again.
_SAME: tuple[_Key, ...] = (_same_line, _line_in_another_file, _same_text, _same_location)
#: Keys that match two holders if one has grown by as many bytes as the other has shrunk.
_EQUAL: tuple[_Key, ...] = (_line_of_any_component, _text_in_other_names, _same_module)


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


def _without_equal(pairs: list[Pair], key: _Key) -> list[Pair]:
    """``pairs`` without two that have the same ``key`` and whose bytes cancel."""
    gone: set[int] = set()
    for some in _by([pair for pair in pairs if pair.bytes], key).values():
        by_bytes: dict[int, list[Pair]] = defaultdict(list)
        for pair in some:
            others = by_bytes[-pair.bytes]
            if others:
                gone |= {id(pair), id(others.pop())}
            else:
                by_bytes[pair.bytes].append(pair)
    return [pair for pair in pairs if id(pair) not in gone]


def _by(pairs: list[Pair], key: _Key) -> dict[Hashable, list[Pair]]:
    groups: dict[Hashable, list[Pair]] = defaultdict(list)
    for pair in pairs:
        name = key(pair.holder)
        if name is not None:
            groups[name].append(pair)
    return groups


def _line(pair: Pair) -> int:
    number = (pair.holder.location or "").rpartition(":")[2]
    return int(number) if number.isdecimal() else 0


def _size(pair: Pair) -> int:
    return -pair.holder.bytes
