"""Text for causes of a figure or a change (holders, findings of the comparison), and for what reduces it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from ..components import ACTIVATIONS, GRADIENTS, INPUTS, TENSOR_COMPONENTS, WORKSPACES
from ..memory_report import RECOMPUTE, Holder, MemoryReport
from ..results.advice import Advice
from ..results.comparison import COMPARED, ELSEWHERE, OTHERS, PEAK, Comparison, Finding, RunDifference
from ..units import MIB, gib_text, signed_size
from .terminal.fitting import cut_end, cut_middle

#: Indentation of the lines below a size.
_INDENT = " " * 6
#: Kinds of differences as texts call them.
_DIFFERENCES: Final = {
    INPUTS: "Inputs, and what is computed from them (batch, or length of sequences)",
    ACTIVATIONS: "All activations, with the same inputs (tokens or patches of a sample, or dtype)",
    RECOMPUTE: "Activation checkpointing of {}",
    "compiled": "Large tensors of torch.compile's kernels",
    "dtype": "Dtype of {}",
    "trained": "Trained parameters of {}",
    "count": "Number of {}",
    "size": "Size of {}",
    "host": "Host memory of {}",
    GRADIENTS: "Gradients at the peak of the forward",
    "left": "Left behind by the last step ({})",
    PEAK: "Phase of the peak",
    COMPARED: "The rows compare the peaks of the {}",
}
#: Most names that a difference has in a text.
_NAMED = 3
#: Most lines that a text names of what stays, and less memory than is named.
_STAYING: Final = 5
_OF_NOTE_BYTES: Final = MIB
Cause = Holder | Finding
#: Escapes text that came from code, for a format.
Code = Callable[[str], str]


def signed_growth(comparison: Comparison) -> str:
    """The growth since the base, and its share of the base's figure."""
    growth_bytes, base_bytes = comparison.growth_bytes, comparison.base_bytes
    share = f" ({growth_bytes / base_bytes:+.1%})" if growth_bytes and base_bytes else ""
    return f"{signed_size(growth_bytes)}{share}"


def size_text(cause: Cause) -> str:
    """The size of ``cause``; for several tensors of the same size, ``12 x 71.9 MiB = 0.84 GiB``."""
    if isinstance(cause, Finding):
        return signed_size(cause.bytes)
    product = f"{cause.count} x {gib_text(cause.largest_bytes or 0)} = " if _are_equal(cause) else ""
    return f"{product}{gib_text(cause.bytes)}"


def _are_equal(holder: Holder) -> bool:
    """Whether its storages are several of one size."""
    return holder.count > 1 and holder.count * (holder.largest_bytes or 0) == holder.bytes


def cause_text(cause: Cause, code: Code, line: Code | None = None) -> str:
    """The size of ``cause`` and its description.

    ``code`` escapes text that came from code; ``line`` does so for ``file:line``, if that becomes a link.
    """
    place, operator = _place(cause, code, line or code), _operator(cause, code)
    return " ".join(filter(None, (size_text(cause), _subject(cause, code), place, operator)))


def cause_lines(causes: Sequence[Cause], width: int) -> Iterator[str]:
    """``causes`` for a terminal: size, component and module; below, line and operator, and the line's source.

    Modules that do not fit into ``width`` are cut in the middle, source lines at the end.
    """
    shown = None
    for cause in causes:
        size = f"  {size_text(cause)}  "
        room = width - len(f"{size}{cause.component} of ")
        yield size + _subject(cause, partial(cut_middle, width=room))
        place = _place(cause, str, str).removeprefix("at ")
        source = cause.source if place != shown else None
        shown = place
        operator = _operator(cause, partial(cut_middle, width=width - len(f"{_INDENT}  ()")))
        text = f"{place} {operator}".strip()
        line = f"{_INDENT}{text}"
        if source and len(f"{line}: {source}") > width:
            yield line
            yield _INDENT + cut_end(source, width - len(_INDENT))
        elif text:
            yield line + (f": {source}" if source else "")


def _subject(cause: Cause, code: Code) -> str:
    if isinstance(cause, Finding) and cause.component == OTHERS:
        return "in smaller changes"
    of = f" of {code(cause.module)}" if cause.module and cause.module != ELSEWHERE else ""
    if not isinstance(cause, Holder):
        return f"{cause.component}{of}"
    times = f" x{cause.count}" if cause.count > 1 and not _are_equal(cause) else ""
    split = f", split by {code(cause.split_by)}" if cause.split_by else ""
    return f"{cause.component}{of}{times}{split}"


def _operator(cause: Cause, code: Code) -> str:
    is_named = cause.operator and cause.module != ELSEWHERE and cause.component != OTHERS
    return f"({code(cause.operator or '')})" if is_named else ""


def _place(cause: Cause, code: Code, line: Code) -> str:
    """The line, and the base's if it is another: that is of another commit, so ``code`` escapes it."""
    if isinstance(cause, Holder):
        return _at(cause.location, line) + _called(cause, line)
    if cause.component == OTHERS:
        return ""
    if cause.module == ELSEWHERE:
        return "outside the largest holders" if cause.component in TENSOR_COMPONENTS else ""
    if cause.largest_bytes is not None:
        largest = signed_size(cause.largest_bytes)
        return f"in {cause.count} lines, the largest {largest} {_moved(cause, code, line)}"
    return _moved(cause, code, line)


def _moved(change: Finding, code: Code, line: Code) -> str:
    """The line now, and at the base if it was another."""
    location, before, called = change.location, change.base, _called(change, line)
    if not location and before:
        return f"no longer at {code(before)}{called}"
    return f"{_at(location, line)}{called}{f' (was {code(before)})' if before and before != location else ''}"


def _called(cause: Cause, code: Code) -> str:
    return "".join(f", called at {code(place)}" for place in cause.details[1:])


def _at(location: str | None, code: Code) -> str:
    return f"at {code(location)}" if location else "at no line of Python"


def staying(report: MemoryReport) -> Iterator[tuple[str, Sequence[Holder], str]]:
    """What is held when the body has ended, and what a step leaves behind: a title, rows, and what is more.

    Not where that is libraries' workspaces alone, which PyTorch keeps.
    """
    held = report.held
    if held is None:
        return
    rows = [row for row in held.holders if row.component != WORKSPACES]
    if sum(row.bytes for row in rows) >= _OF_NOTE_BYTES:
        shown = _largest(rows, held.bytes)
        rest = _rest_text([row for row in held.holders if row not in shown])
        yield f"Still held when the body ends, {gib_text(held.bytes)}", shown, rest
    grown = held.grown
    if grown is not None and sum(row.bytes for row in grown.holders) >= _OF_NOTE_BYTES:
        title = f"After the last step {gib_text(grown.bytes)} more is held than after the one before"
        yield title, _largest(grown.holders, grown.bytes), _rest_text(grown.holders[_STAYING:])


def _largest(rows: Sequence[Holder], size_bytes: int) -> Sequence[Holder]:
    """The first of ``rows``, the largest first, without those that are under 1% of ``size_bytes``."""
    return [row for row in rows[:_STAYING] if row.bytes * 100 >= size_bytes]


def _rest_text(rows: Sequence[Holder]) -> str:
    """The sum of ``rows``, which are not shown; empty if there are none."""
    size = gib_text(sum(row.bytes for row in rows))
    if rows and all(row.component == WORKSPACES for row in rows):
        return f"{size}  in workspaces, which PyTorch keeps"
    return f"{size}  in {len(rows)} more" if rows else ""


def change_lines(comparison: Comparison, width: int = 80) -> list[str]:
    """What explains the growth since the base, for a terminal: what the run does otherwise, and rows."""
    said = [f"  {text}" for text in difference_texts(comparison)]
    return [*said, *cause_lines(comparison.findings, width)]


def difference_texts(comparison: Comparison, code: Code = str) -> list[str]:
    """What the run does otherwise than at the base, a sentence each; ``code`` escapes what is of it."""
    return [_difference(one, code) for one in comparison.differences if one.kind in _DIFFERENCES]


def _difference(one: RunDifference, code: Code) -> str:
    named = ", ".join(map(code, one.details[:_NAMED]))
    more = f" and {len(one.details) - _NAMED} more" if len(one.details) > _NAMED else ""
    title, head, base = _DIFFERENCES[one.kind].format(named + more), code(one.head), code(one.base)
    return f"{title}: {head} now, {base} at the base." if one.base else f"{title}: {head}."


def title_of(advice: Advice) -> str:
    """The heading of a list of trials."""
    return f"What reduces it from {gib_text(advice.bytes)} (each change was run)"


def trial_texts(advice: Advice, code: Code) -> list[str]:
    """Each trial in a line; ``code`` formats text from the user's code."""
    return [
        f"{code(write)}: {gib_text(size)} ({signed_size(size - advice.bytes)}){enough(size, advice)}"
        for write, size in advice.tried.items()
    ]


def enough(size_bytes: int, advice: Advice) -> str:
    """What a trial says that would bring the test within its budget."""
    return ", within" if size_bytes <= advice.limit_bytes else ""
