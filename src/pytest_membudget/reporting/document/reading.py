"""Reads report.json as untrusted data."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from ...components import TENSOR_COMPONENTS
from ...errors import UsageMistake
from ...json_object import Misfit
from ...memory_report import MemoryReport, Timeline
from ...units import MIB
from .document import SCHEMA_VERSION, Document

#: A report of a thousand tests with timelines is smaller; a larger file is refused before it is read.
MOST_FILE_BYTES = 64 * MIB


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
        if version != SCHEMA_VERSION:
            raise Misfit(f"must be {SCHEMA_VERSION}, which this version reads", version, "schema_version")
    document = Document.from_json(value, checked=True)
    if document.tool.testing:
        raise Misfit(
            "must be false: a test gave these figures, and nothing was checked", True, "tool.testing"
        )
    for index, row in enumerate(document.tests):
        for kind, figures in (("estimates", row.estimates), ("measurements", row.measurements)):
            for place, figure in enumerate(figures):
                _check_figure(figure, f"tests[{index}].{kind}[{place}]")
        if row.comparison is not None and row.comparison.base_timeline is not None:
            _check_timeline(row.comparison.base_timeline, f"tests[{index}].comparison.base_timeline")
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
        raise Misfit(f"must add up to peak.{figure.metric}_bytes, {peak:,}", total, f"{path}.components")
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
