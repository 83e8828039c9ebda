"""Document: report.json, read as untrusted data and checked against its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...components import TENSOR_COMPONENTS
from ...errors import UsageMistake
from ...results.comparison import ComparedSession, UnusedWaiver, VersionChange
from ...results.test_result import TestResult
from ...units import MIB
from ..files.json_file import SCHEMA_VERSION
from .json_shapes import Misfit
from .report_shapes import DOCUMENT, SIZE, WORD

#: A report of a thousand tests with timelines is smaller; a larger file is refused before it is read.
MOST_FILE_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    tests: tuple[TestResult, ...]
    tool_version: str | None = None
    torch_version: str | None = None
    alloc_conf: str | None = None
    """The allocator's settings; None if the report does not have them."""
    git_head: str | None = None
    git_dirty: bool | None = None
    """Tracked files differed from the commit."""
    git_files: Mapping[str, str] = field(default_factory=dict)
    """Paths in the repository of the files that are as in the commit, by their paths in the report."""
    distributions: Mapping[str, str] | None = None
    """Versions of installed distributions, by name; None if the report does not have them."""
    comparison: ComparedSession | None = None


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
            raise Misfit("schema_version", f"must be {SCHEMA_VERSION}, which this version reads", version)
    document: Mapping[str, Any] = DOCUMENT(value, "")
    if document["tool"]["testing"]:
        raise Misfit(
            "tool.testing", "must be false: a test gave these figures, and nothing was checked", True
        )
    for index, row in enumerate(document["tests"]):
        for kind in ("estimates", "measurements"):
            for place, figure in enumerate(row[kind]):
                _check_figure(figure, f"tests[{index}].{kind}[{place}]")
        base = (row["comparison"] or {}).get("base_timeline")
        if base is not None:
            _check_timeline(base, f"tests[{index}].comparison.base_timeline")
    return _document(document)


def _document(written: Mapping[str, Any]) -> Document:
    git = written["git"] or {"head": None, "dirty": None, "files": {}}
    compared = written["comparison"]
    return Document(
        tests=tuple(map(TestResult.from_json, written["tests"])),
        tool_version=written["tool"]["version"],
        torch_version=written["torch"]["version"],
        alloc_conf=written["torch"]["alloc_conf"],
        git_head=git["head"],
        git_dirty=git["dirty"],
        git_files=git["files"],
        comparison=_compared_session(compared) if compared is not None else None,
        distributions=written["distributions"],
    )


def _compared_session(written: Mapping[str, Any]) -> ComparedSession:
    base = written["base"] or {"ref": None, "commit": None}
    return ComparedSession(
        ref=base["ref"],
        commit=base["commit"],
        removed=tuple(entry["nodeid"] for entry in written["removed"]),
        skipped=tuple(written["skipped"]),
        unused_waivers=tuple(UnusedWaiver(**entry) for entry in written["unused_waivers"]),
        distributions=tuple(VersionChange(**entry) for entry in written["distributions"]),
    )


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


def _check_figure(figure: Mapping[str, Any], path: str) -> None:
    total, peak = sum(figure["components"].values()), figure["peak"][f"{figure['metric']}_bytes"]
    if total != peak:
        raise Misfit(f"{path}.components", f"must add up to peak.{figure['metric']}_bytes, {peak:,}", total)
    timeline = figure["timeline"]
    if timeline is None:
        return
    point = _check_timeline(timeline, f"{path}.timeline")
    for name in TENSOR_COMPONENTS:
        held = timeline["components"].get(name)
        shown = held[point] if held is not None else 0
        if figure["kind"] == "traced" and shown != figure["components"].get(name, 0):
            raise Misfit(
                f"{path}.timeline.components.{name}[{point}]",
                f"must be components.{name} at the peak, {figure['components'].get(name, 0):,}",
                shown,
            )


def _check_timeline(timeline: dict[str, Any], path: str) -> int:
    """The index of the peak's point."""
    moments = timeline["moments"]
    if any(after <= before for before, after in pairwise(moments)):
        raise Misfit(f"{path}.moments", "must rise from each to the next", moments)
    for name, sizes in timeline["components"].items():
        if len(sizes) != len(moments):
            raise Misfit(f"{path}.components.{name}", f"must have {len(moments)} sizes, as moments", sizes)
    for index, phase in enumerate(timeline["phases"]):
        where = f"{path}.phases[{index}]"
        if len(phase) != 2:
            raise Misfit(where, "must be a moment and a name", phase)
        timeline["phases"][index] = [SIZE(phase[0], f"{where}[0]"), WORD(phase[1], f"{where}[1]")]
    if timeline["peak_moment"] not in moments:
        raise Misfit(f"{path}.peak_moment", "must be one of the moments", timeline["peak_moment"])
    return int(moments.index(timeline["peak_moment"]))
