"""Findings: the few changes that explain why a test takes more or less than at the base."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from ..components import (
    ACTIVATIONS,
    GRADIENTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    ROUNDING,
    TEMPORARIES,
    WORKSPACES,
)
from ..memory_report import BACKWARD, MemoryReport, module_pattern
from ..results.comparison import ELSEWHERE, OTHERS, Comparison, Finding
from ..units import MIB
from .differences import differences
from .matching import Pair, cancelling, matched, moved_peak, same_phase

#: At most so many rows; the share of the growth that they may leave unexplained; and the share that is too
#: small for a row. All three are choices of presentation.
MOST_ROWS = 6
_UNEXPLAINED = 0.1
_NEGLIGIBLE = 0.005
#: Growth up to this share, and a MiB, has no rows that are larger: they cancel each other.
_SAME = 0.0001
#: In the place of a component: any that none entails.
_ANY = "any"
#: What a row entails has at most so many times its size: Adam's fp32 states and copy of a bf16 parameter.
_MOST_TIMES = 6


def explained(comparison: Comparison, head: MemoryReport, base: MemoryReport) -> Comparison:
    """``comparison`` with what explains the growth from the figure ``base`` to ``head``.

    No rows if both take the same: only names of holders differ then.
    """
    now, before = same_phase(head, base)
    pairs, rests = matched(now, before)
    growth_bytes = now.peak_bytes - before.peak_bytes
    rows = _rows(pairs, rests, growth_bytes) if head.peak_bytes != base.peak_bytes and growth_bytes else ()
    is_same = abs(head.peak_bytes - base.peak_bytes) <= min(MIB, base.peak_bytes * _SAME)
    return replace(
        comparison,
        findings=() if is_same and any(abs(row.bytes) > MIB for row in rows) else rows,
        differences=() if is_same else (*differences(head, base, pairs), *moved_peak(head, base)),
    )


def _rows(pairs: Sequence[Pair], rests: Mapping[str, int], growth_bytes: int) -> tuple[Finding, ...]:
    """The rows that explain the growth, its causes first. Their bytes add up to 90% of it or more."""
    changes = [_change(pair) for pair in pairs if pair.bytes]
    changes += [Finding(rest, name, ELSEWHERE) for name, rest in rests.items() if rest]
    # workspaces without the line: cuBLAS allocates its own at the first product of a stream
    one_each = _grouped(changes, lambda one: WORKSPACES if one.component == WORKSPACES else id(one))
    changes = [change for change in one_each if change.bytes]
    lines = _grouped(changes, _line)
    modules = _grouped(lines, lambda change: (change.component, module_pattern(change.module)))
    callers = _grouped(lines, lambda change: (change.component, change.details[1:]))
    components = _grouped(lines, lambda change: change.component)
    for some in (changes, lines, modules, callers, components):
        rows = _explaining(some, growth_bytes)
        if rows:
            return tuple(rows)
    largest = sorted(components, key=lambda one: -abs(one.bytes))[: MOST_ROWS - 1]
    rest = growth_bytes - sum(row.bytes for row in largest)
    others = [Finding(rest, OTHERS, ELSEWHERE)] if rest else []
    return (*_causes_first(largest, growth_bytes), *others)


def _change(pair: Pair) -> Finding:
    holder, base = pair.holder, pair.base
    return Finding(
        bytes=pair.bytes,
        component=holder.component,
        module=holder.module,
        location=pair.head.location if pair.head is not None else None,
        base=base.location if base is not None else None,
        operator=holder.operator,
        source=(pair.head or holder).source,
        details=(pair.head or holder).details,
        phase=holder.phase,
    )


def _explaining(changes: Sequence[Finding], growth_bytes: int) -> list[Finding] | None:
    """The fewest of ``changes`` that add up to the growth, then pairs that cancel; None if too many would."""
    rows: list[Finding] = []
    rest = growth_bytes
    single, pairs = cancelling(changes, lambda one: one.component)
    single, others = cancelling(single, lambda one: True)
    for change in sorted(single, key=lambda one: -abs(one.bytes)):
        if len(rows) == MOST_ROWS or abs(change.bytes) <= abs(growth_bytes) * _NEGLIGIBLE:
            break
        rows.append(change)
        rest -= change.bytes
    most = abs(growth_bytes) * _UNEXPLAINED
    if abs(rest) > most:
        return None
    while len(rows) > 1 and abs(rest + rows[-1].bytes) <= most:
        rest += rows.pop().bytes
    rows = _causes_first(rows, growth_bytes)
    for pair in sorted([*pairs, *others], key=lambda one: -abs(one[0].bytes)):
        if abs(pair[0].bytes) > most and len(rows) + len(pair) <= MOST_ROWS:
            rows += _causes_first(pair, growth_bytes)
    return rows


def _causes_first(rows: Sequence[Finding], growth_bytes: int) -> list[Finding]:
    """The largest first; changes with the growth's sign before those with the other.

    What other rows entail follows them, though it may be larger: see ``_entailed_by``.
    """
    largest: Counter[str] = Counter()
    for row in rows:
        if (row.bytes > 0) == (growth_bytes > 0):
            for name in (row.component, *([] if _entailed_by(row) else [_ANY])):
                largest[name] = max(largest[name], abs(row.bytes))

    def order(row: Finding) -> tuple[bool, int, bool]:
        cause_bytes = largest[_entailed_by(row)]
        follows = abs(row.bytes) <= _MOST_TIMES * cause_bytes
        size = min(cause_bytes, abs(row.bytes)) if follows else abs(row.bytes)
        return (row.bytes > 0) != (growth_bytes > 0), -size, follows

    return sorted(rows, key=order)


def _entailed_by(row: Finding) -> str:
    """The component that entails the row's; empty for none.

    Parameters have gradients and optimizer states, a backward computes gradients of activations, and what
    is allocated is rounded up.
    """
    if row.component in (GRADIENTS, OPTIMIZER_STATES):
        return PARAMETERS
    if row.component == ROUNDING:
        return _ANY
    return ACTIVATIONS if row.component == TEMPORARIES and row.phase == BACKWARD else ""


def _grouped(changes: Sequence[Finding], key: Callable[[Finding], Hashable]) -> list[Finding]:
    """One change for all with the same ``key``, with the line of the largest."""
    groups: dict[Hashable, list[Finding]] = defaultdict(list)
    for change in changes:
        # memory that no holder names has no line
        groups[change.component if change.module == ELSEWHERE else key(change)].append(change)
    return [_summed(group) if len(group) > 1 else group[0] for group in groups.values()]


def _summed(group: Sequence[Finding]) -> Finding:
    size = sum(change.bytes for change in group)
    # the line that added most is the likely reason
    leads = [change for change in group if (change.bytes > 0) == (size > 0)] or list(group)
    lead = max(leads, key=lambda change: abs(change.bytes))
    notable = [change for change in group if abs(change.bytes) >= abs(lead.bytes) * _NEGLIGIBLE]
    lines = len({_line(change) for change in notable})
    return replace(
        lead,
        bytes=size,
        module=lead.module if len({module_pattern(change.module) for change in notable}) == 1 else None,
        operator=lead.operator if len({change.operator for change in notable}) == 1 else None,
        count=lines,
        details=lead.details if len({change.details[1:] for change in notable}) == 1 else (),
        largest_bytes=lead.bytes if lines > 1 else None,
    )


def _line(change: Finding) -> Hashable:
    place = change.location or change.base
    of_none = change.component, change.module, change.operator
    return (change.component, place, change.details[1:]) if place else of_none
