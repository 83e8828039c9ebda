"""Document: a whole report.json as a value, and how it is read: as untrusted data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from ..components import TENSOR_COMPONENTS
from ..errors import UsageMistake
from ..json_object import JsonObject, Misfit
from ..memory_report import MemoryReport, Timeline
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult
from ..units import MIB
from . import first_schema

SCHEMA_VERSION: Final = first_schema.VERSION + 1
#: A report of a thousand tests with timelines is smaller; a larger file is refused before it is read.
MOST_FILE_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class Git(JsonObject):
    """The repository of the tests."""

    commit: str | None = None
    """Which is checked out."""
    dirty: bool | None = None
    """Whether tracked files differ from the commit."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths in the repository of the files that are as in the commit, by their paths in the report."""


@dataclass(frozen=True, slots=True)
class Document(JsonObject):
    """A whole report."""

    required: ClassVar[tuple[str, ...]] = ("schema_version",)

    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    """Of this description; keys may be added within it, and none is taken away."""
    testing: bool = field(default=False, kw_only=True)
    """Estimates were given by ``pytest_membudget.testing``."""
    torch: str | None = field(default=None, kw_only=True)
    """The version of the torch that figures were made with."""
    alloc_conf: str | None = field(default=None, kw_only=True)
    """The allocator's settings in the environment; empty for none, None if the report does not have them."""
    git: Git = field(default=Git(), kw_only=True)
    """The repository of the tests."""
    distributions: Mapping[str, str] | None = field(default=None, kw_only=True)
    """Versions of installed distributions, by name; None if the report does not have them."""
    tests: tuple[TestResult, ...]
    """All that have a budget."""
    comparison: ComparedSession | None = None
    """With the base, of the whole session."""


def read_document(path: Path, most_bytes: int = MOST_FILE_BYTES) -> Document:
    """The report at ``path``, with all keys, and texts that are safe to print. Raises ``UsageMistake``."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise UsageMistake(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > most_bytes:
        raise UsageMistake(
            f"{path}: is larger than {most_bytes // MIB} MiB, the limit for a report; --max-mib sets another"
        )
    try:
        return checked_document(_decoded(data))
    except UsageMistake as error:
        raise UsageMistake(f"{path}: {error}") from None


def checked_document(value: object) -> Document:
    """``value`` as a report. Raises ``Misfit``, whose message begins with the key path."""
    if isinstance(value, dict) and type(value.get("schema_version")) is int:
        version = value["schema_version"]
        if version == first_schema.VERSION:
            first_schema.upgrade(value)
        elif version != SCHEMA_VERSION:
            raise Misfit(f"must be {SCHEMA_VERSION}, which this version reads", version, "schema_version")
    document = Document.from_json(value, checked=True)
    if document.testing:
        raise Misfit("must be false: a test gave these figures, and nothing was checked", True, "testing")
    for index, row in enumerate(document.tests):
        for kind, figures in (("estimates", row.estimates), ("measurements", row.measurements)):
            for place, figure in enumerate(figures):
                _check_figure(figure, f"tests[{index}].{kind}[{place}]")
        base = row.comparison.base if row.comparison is not None else None
        if base is not None and base.timeline is not None:
            _check_timeline(base.timeline, f"tests[{index}].comparison.base.timeline")
    return document


def _decoded(data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageMistake(f"is not UTF-8 text: byte {error.start}") from None
    except RecursionError:
        raise UsageMistake("is nested far deeper than a report is") from None
    except json.JSONDecodeError as error:
        raise UsageMistake(f"is not JSON: {error.msg}, line {error.lineno}") from None
    except ValueError:  # a number with more digits than Python reads
        raise UsageMistake("is not JSON that can be read: it has a number of thousands of digits") from None


def _check_figure(figure: MemoryReport, path: str) -> None:
    total, peak = sum(figure.components.values()), figure.peak_bytes
    if total != peak:
        raise Misfit(f"must add up to peak.{figure.metric}, {peak:,}", total, f"{path}.components")
    timeline = figure.timeline
    if timeline is None:
        return
    point = _check_timeline(timeline, f"{path}.timeline")
    for name in TENSOR_COMPONENTS if figure.kind == "traced" else ():
        shown = timeline.components[name][point] if name in timeline.components else 0
        held = figure.components.get(name, 0)
        if shown != held:
            place = f"{path}.timeline.components.{name}[{point}]"
            raise Misfit(f"must be components.{name} at the peak, {held:,}", shown, place)


def _check_timeline(timeline: Timeline, path: str) -> int:
    """The index of the peak's point."""
    moments = timeline.moments
    if any(after <= before for before, after in pairwise(moments)):
        raise Misfit("must rise from each to the next", moments, f"{path}.moments")
    for name, sizes in timeline.components.items():
        if len(sizes) != len(moments):
            raise Misfit(f"must have {len(moments)} sizes, as moments", sizes, f"{path}.components.{name}")
    if timeline.peak_moment not in moments:
        raise Misfit("must be one of the moments", timeline.peak_moment, f"{path}.peak_moment")
    return moments.index(timeline.peak_moment)
