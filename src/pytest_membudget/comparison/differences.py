"""Differences: what a run does otherwise than at the base, of all its tensors, parameters or steps."""

import os.path
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..components import (
    ACTIVATIONS,
    FROZEN_PARAMETERS,
    GRADIENTS,
    INPUTS,
    PARAMETERS,
    ROUNDING,
    TEMPORARIES,
    WORKSPACES,
)
from ..memory_report import FORWARD, MOST_HOLDERS, RECOMPUTE, Holder, MemoryReport, module_pattern
from ..results.comparison import RunDifference, times_as_large
from ..units import gib_text
from .matching import Held, Pair, same_phase

#: The share of the growth below which a difference is none of note.
_SMALL = 0.05
#: The share of the growth that larger inputs, or activations, may leave unexplained.
_UNEXPLAINED = 0.1
#: Factors that differ by less are the same: kernels round sizes up.
_ROUNDING = 0.01
#: Components that grow with the number of samples, or with a power of it.
_OF_SAMPLES = (ACTIVATIONS, INPUTS, TEMPORARIES)
#: So few activations that have grown by one factor are separate causes.
_FEW = 4
#: What inductor calls its kernels (torch/_inductor/codegen/triton.py, 2.13).
_COMPILED = "triton_"
#: A difference and the growth that goes with it, in bytes.
_Found = Iterator[tuple[float, RunDifference]]
#: The name of parameters, but for its numbers, and their dtype.
_Weights = tuple[str, str | None]
#: Holders that the head and the base have.
_Both = Sequence[tuple[Holder, Holder]]


class _Sides(NamedTuple):
    head: MemoryReport
    base: MemoryReport
    now: Held
    """Of the head, the phase that is compared."""
    before: Held
    growth_bytes: int

    def more(self, component: str) -> int:
        """By how much ``component`` has grown."""
        return self.now.components.get(component, 0) - self.before.components.get(component, 0)


def differences(head: MemoryReport, base: MemoryReport, pairs: Iterable[Pair]) -> tuple[RunDifference, ...]:
    """What the run of ``head`` does otherwise than that of ``base``, whose holders are ``pairs``.

    The surest first, and nothing with which a test takes less where it takes more.
    """
    now, before = same_phase(head, base)
    sides = _Sides(head, base, now, before, now.peak_bytes - before.peak_bytes)
    both = [(one.head, one.base) for one in pairs if one.head is not None and one.base is not None]
    both = [(one, other) for one, other in both if other.bytes]
    scaled = [*_samples(sides, both)]
    models = _models(sides, is_scaled=any(one.kind == ACTIVATIONS for _, one in scaled))
    of_all = scaled, _recomputed(sides), _compiled(sides), _dtypes(both), models
    found = [one for way in (*of_all, _host(sides), _gradients(sides), _left(sides)) for one in way]
    least = abs(sides.growth_bytes) * _SMALL
    return tuple(one for size, one in found if size * sides.growth_bytes > 0 and abs(size) >= least)


def _samples(sides: _Sides, both: _Both) -> _Found:
    """Larger inputs, or where these are the same, more activations of each."""
    for name, of in ((INPUTS, _input_factor), (ACTIVATIONS, _activation_factor)):
        factor = of(sides.now, sides.before, both)
        if factor is not None:
            yield sides.growth_bytes, RunDifference(name, times_as_large(factor))


def _input_factor(head: Held, base: Held, both: _Both) -> float | None:
    """How many times as large all inputs are, where that explains the growth; else None.

    What is computed from them is then larger by the same factor, or by its square: attention's scores, by the
    length of the sequence.
    """
    pairs = [(one, other) for one, other in both if one.component in _OF_SAMPLES]
    factors = [one.bytes / other.bytes for one, other in pairs if one.component == INPUTS]
    factor = max(factors, default=1.0)
    if _is_near(factor, 1) or not all(_is_near(one, factor) for one in factors) or len(factors) == len(pairs):
        return None
    scaled = [
        (one.bytes, other.bytes)
        for one, other in pairs
        if any(_is_near(one.bytes / other.bytes, times) for times in (factor, factor**2))
    ]
    before_bytes = sum(before for _, before in scaled)
    growth_bytes = head.peak_bytes - base.peak_bytes
    unexplained_bytes = growth_bytes - sum(now for now, _ in scaled) + before_bytes
    constant_bytes = sum(base.components.get(name, 0) for name in _OF_SAMPLES) - before_bytes
    explains = abs(unexplained_bytes) <= abs(growth_bytes) * _UNEXPLAINED
    return factor if explains and constant_bytes <= before_bytes * _UNEXPLAINED else None


def _activation_factor(head: Held, base: Held, both: _Both) -> float | None:
    """How many times as large all activations are, where inputs are not and that explains the growth.

    So it is where an image is cut into more patches, or a text padded to a longer sequence. Holders that have
    copies of weights too have grown by less than the factor.
    """
    sizes = [(one.bytes, other.bytes) for one, other in both if one.component == ACTIVATIONS]
    if head.components.get(INPUTS) != base.components.get(INPUTS) or not sizes:
        return None
    largest, before = max(sizes, key=lambda size: abs(size[0] - size[1]))
    factor = largest / before
    scaled = [one - other for one, other in sizes if _is_near(one / other, factor)]
    partly = [one - other for one, other in sizes if min(1, factor) <= one / other <= max(1, factor)]
    grown = Counter(head.components)
    grown.subtract(base.components)
    others = set(grown) - {*_OF_SAMPLES, WORKSPACES, ROUNDING}
    most = abs(grown[ACTIVATIONS]) * _UNEXPLAINED
    explains = max(abs(grown[ACTIVATIONS] - sum(partly)), sum(abs(grown[name]) for name in others)) <= most
    is_one = len(scaled) > _FEW and abs(sum(scaled)) * 2 > abs(sum(partly))
    return factor if is_one and explains and not _is_near(factor, 1) else None


def _is_near(one: float, other: float) -> bool:
    return abs(one - other) <= other * _ROUNDING


def _recomputed(sides: _Sides) -> _Found:
    """What runs again in the backward less often, where it keeps more activations; or more often.

    A checkpoint ends where all is there that it keeps: of its last module nothing need run again.
    """
    now, before = sides.head.recomputed, sides.base.recomputed
    more, fewer = (before, now) if sides.more(ACTIVATIONS) > 0 else (now, before)
    changed: dict[tuple[float, float], list[str]] = defaultdict(list)
    for name in more if fewer.keys() <= more.keys() else ():  # else names have changed
        if more[name] > fewer.get(name, 0):
            changed[now.get(name, 0), before.get(name, 0)].append(name)
    for (head, base), names in sorted(changed.items(), key=lambda one: -len(one[1]))[:1]:
        difference = RunDifference(RECOMPUTE, _share(head), _share(base), _named(names, more))
        yield _kept_bytes(sides.now, names) - _kept_bytes(sides.before, names), difference


def _kept_bytes(held: Held, names: Collection[str]) -> int:
    """The activations of modules, or lines, ``names``."""
    found = [one for one in held.holders if one.component == ACTIVATIONS]
    modules = tuple(f"{name}." for name in names)
    return sum(
        one.bytes
        for one in found
        if one.location in names or f"{module_pattern(one.module) or ''}.".startswith(modules)
    )


def _compiled(sides: _Sides) -> _Found:
    """Whether inductor's kernels made large tensors."""
    least = abs(sides.growth_bytes) * _SMALL
    now, before = (
        any(
            row.operator.startswith(_COMPILED) and row.bytes >= least
            for rows in (one.holders, *(phase.holders for phase in one.phases))
            for row in rows
        )
        for one in (sides.head, sides.base)
    )
    if now != before:
        yield sides.growth_bytes, RunDifference("compiled", _share(now, "some"), _share(before, "some"))


def _dtypes(both: _Both) -> _Found:
    """Holders of another dtype, by the two: their components, or of one its modules."""
    for now, before in dict.fromkeys((one.dtype, other.dtype) for one, other in both):
        some = [pair for pair in both if (pair[0].dtype, pair[1].dtype) == (now, before)]
        if now and before and now != before:
            names = tuple(dict.fromkeys(one.component for one, _ in some))
            if len(names) == 1:
                names = tuple(f"{names[0]} of {name}" for name in _named(one.module or "" for one, _ in some))
            grown = sum(one.bytes - other.bytes for one, other in some)
            yield grown, RunDifference("dtype", now, before, names)


def _models(sides: _Sides, *, is_scaled: bool) -> _Found:
    """Parameters of which there are more, or more that are trained, or that have another size.

    Smaller ones too where all activations are larger, ``is_scaled``: as those of smaller patches.
    """
    now, before = _weights(sides.now), _weights(sides.before)
    unlisted_bytes = max(map(_unlisted, (sides.now, sides.before)))
    changed: dict[tuple[str, int, int], list[_Weights]] = defaultdict(list)
    for key in sorted(now.keys() & before.keys(), key=str):
        kind = next((one for one in ("count", "trained", "size") if now[key][one] != before[key][one]), None)
        is_known = kind == "trained" or abs(now[key]["size"] - before[key]["size"]) > unlisted_bytes
        if kind is not None and is_known:
            changed[kind, now[key][kind], before[key][kind]].append(key)
    others = [name for name, _ in (*now, *before)]
    for (kind, head, base), keys in changed.items():
        sizes = [sum(one[key]["size"] for key in keys) for one in (now, before)]
        entails = is_scaled or (kind == "trained" and (head > base) == (sides.growth_bytes > 0))
        grown = sides.growth_bytes if entails else sizes[0] - sizes[1]
        values = (gib_text(sizes[0]), gib_text(sizes[1])) if kind == "size" else (str(head), str(base))
        yield grown, RunDifference(kind, *values, _named((name for name, _ in keys), others))


def _unlisted(held: Held) -> int:
    """The most bytes of a holder that a full list has left out."""
    return held.holders[-1].bytes if len(held.holders) == MOST_HOLDERS else 0


def _weights(held: Held) -> dict[_Weights, Counter[str]]:
    """How many parameters there are of each name and dtype, how many are trained, and their bytes."""
    found: dict[_Weights, Counter[str]] = defaultdict(Counter)
    for one in held.holders:
        if one.module and one.component in (PARAMETERS, FROZEN_PARAMETERS):
            trained = one.count * (one.component == PARAMETERS)
            key = module_pattern(one.module) or "", one.dtype
            found[key].update(count=one.count, trained=trained, size=one.bytes)
    return found


def _host(sides: _Sides) -> _Found:
    """What the host held at the base, and the card holds now."""
    now, before = (one.host.components if one.host else {} for one in (sides.head, sides.base))
    for name in {**now, **before}:
        head, base, more = now.get(name, 0), before.get(name, 0), sides.more(name)
        if more * (base - head) > 0 and 0.5 <= more / (base - head) <= 2 and name != ROUNDING:
            yield more, RunDifference("host", _size(head), _size(base), (name,))


def _gradients(sides: _Sides) -> _Found:
    """Gradients that are kept while the next forward runs, and were not."""
    forwards = [one.in_phase(FORWARD) for one in (sides.head, sides.base)]
    head, base = (one.components.get(GRADIENTS, 0) if one is not None else 0 for one in forwards)
    if None not in forwards and not (head and base):
        yield head - base, RunDifference(GRADIENTS, _size(head), _size(base))


def _left(sides: _Sides) -> _Found:
    """What the last step has left behind."""
    ends = [one.held.grown for one in (sides.head, sides.base) if one.held is not None]
    rows = [
        [row for row in end.holders if row.component not in (WORKSPACES, ROUNDING)]
        for end in ends
        if end is not None
    ]
    if len(rows) == 2:
        head, base = (sum(row.bytes for row in some) for some in rows)
        names = dict.fromkeys(row.module or row.location or row.component for row in rows[head < base])
        yield head - base, RunDifference("left", _size(head), _size(base), tuple(names))


def _named(names: Iterable[str], others: Collection[str] = ()) -> tuple[str, ...]:
    """``names``; in place of those that share one up to a number, that, where none of ``others`` does."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(module_pattern(one) or "" for one in names):
        before, star, _ = name.partition("*")
        groups[before + star if star else name].append(name)
    found: list[str] = []
    for some in groups.values():
        shared = os.path.commonpath([name.replace(".", "/") for name in some]).replace("/", ".")
        is_theirs = any(f"{one}.".startswith(f"{shared}.") for one in others if one not in some)
        found += some if len(some) == 1 or is_theirs else [shared]
    return tuple(found)


def _size(size_bytes: int) -> str:
    return gib_text(size_bytes) if size_bytes else "none"


def _share(share: float, whole: str = "all") -> str:
    return whole if share == 1 else f"{share:.0%}" if share else "none"
