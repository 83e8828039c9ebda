"""Document: report.json, read as untrusted data and checked against its schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..budgets.verdict import VERDICTS
from ..components import METRICS, TENSOR_COMPONENTS
from ..errors import UsageMistake
from ..results.comparison import STATUSES, ComparedSession, UnusedWaiver, VersionChange
from ..results.lock import LOCK_STATUSES
from ..results.test_result import TestResult
from ..units import MIB
from ..user_input.kinds import FLAG, Choice, number, whole
from .files.json_file import SCHEMA_VERSION
from .schema import MOST_BYTES, JsonList, JsonShape, Keys, MapOf, Maybe, Misfit, Of, Text

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


_SIZE = Of(whole(0, most=MOST_BYTES))
_CHANGE = Of(whole(-MOST_BYTES, most=MOST_BYTES))
_NUMBER = Of(number(1, is_included=True, below=1e15))
_FLAG = Of(FLAG)
_NAME = Text(500)
_WORD = Text(40, r"[a-z][a-z0-9_-]*", "must be a word of small letters, as in optimizer_states")
_LINES = Text(200_000, lines=True)
_PATH = Text(1000)
_PLACE = Maybe(_PATH)


def _none() -> None:
    return None


_OPTIONAL_PLACE: tuple[JsonShape, Callable[[], Any]] = (_PLACE, _none)
_TIMELINE = Keys(
    {
        "moments": JsonList(_SIZE, 2000),
        "components": MapOf(_WORD, JsonList(_SIZE, 2000)),
        "peak_moment": _SIZE,
    },
    {
        "within_bytes": (_SIZE, int),
        "phases": (JsonList(JsonList(lambda value, path: value, 2), 100), list),
    },
)
_HOLDER = Keys(
    {"bytes": _SIZE, "count": _SIZE, "component": _WORD, "operator": _NAME},
    {
        "module": _OPTIONAL_PLACE,
        "location": _OPTIONAL_PLACE,
        "source": _OPTIONAL_PLACE,
        "each_bytes": (Maybe(_SIZE), _none),
    },
)
_PEAK = Keys({f"{name}_bytes": _SIZE for name in ("allocated", "active", "reserved", "device")})
_FIGURE_KEYS: Mapping[str, JsonShape] = {
    "kind": _WORD,
    "rank": Of(whole(0, most=10**6)),
    "metric": Of(Choice((*METRICS, "active"))),
    "peak": _PEAK,
    "components": MapOf(_WORD, _CHANGE),
    "holders": JsonList(_HOLDER),
}
_CAVEAT = Keys({"kind": _WORD, "text": _LINES}, {"bound_bytes": (Maybe(_SIZE), _none)})
_FIGURE_MORE: dict[str, tuple[JsonShape, Callable[[], Any]]] = {
    "assumptions": (JsonList(_LINES), list),
    "not_modelled": (JsonList(_LINES), list),
    "caveats": (Maybe(JsonList(_CAVEAT)), _none),
    "seconds": (_NUMBER, float),
    "timeline": (Maybe(_TIMELINE), _none),
    "device": (Text(20), str),
}
_HOST = Keys(_FIGURE_KEYS, _FIGURE_MORE)
_FIGURE = Keys(_FIGURE_KEYS, {**_FIGURE_MORE, "host": (Maybe(_HOST), _none)})
_BUDGET = Keys(
    {},
    {
        "gib": (Maybe(_NUMBER), _none),
        "gpus": (Of(whole(1, most=10**6)), lambda: 1),
        "ranks": (Maybe(JsonList(Of(whole(0, most=10**6)), 10**6)), _none),
        "gpu": (_PLACE, _none),
        "metric": (_WORD, lambda: "allocated"),
        "host_gib": (Maybe(_NUMBER), _none),
        "components": (MapOf(_WORD, _NUMBER), dict),
        "max_growth": (_PLACE, _none),
        "reason": (Maybe(_LINES), _none),
    },
)
_FINDING = Keys(
    {"bytes": _CHANGE, "component": _WORD},
    {
        "module": _OPTIONAL_PLACE,
        "location": _OPTIONAL_PLACE,
        "base_location": _OPTIONAL_PLACE,
        "operator": _OPTIONAL_PLACE,
        "lines": (Of(whole(1, most=10**9)), lambda: 1),
        "largest_bytes": (Maybe(_CHANGE), _none),
        "source": _OPTIONAL_PLACE,
    },
)
_VERSION = Keys({"name": _NAME}, {"base": _OPTIONAL_PLACE, "head": _OPTIONAL_PLACE})
_COMPARISON = Keys(
    {"status": Of(Choice(STATUSES))},
    {
        "reason": (_LINES, str),
        "base_bytes": (Maybe(_SIZE), _none),
        "head_bytes": (Maybe(_SIZE), _none),
        "growth_bytes": (_CHANGE, int),
        "suggested_gib": (Maybe(_NUMBER), _none),
        "input_factor": (Maybe(_NUMBER), _none),
        "activation_factor": (Maybe(_NUMBER), _none),
        "findings": (JsonList(_FINDING, 1000), list),
        "base_components": (Maybe(MapOf(_WORD, _CHANGE)), _none),
        "base_timeline": (Maybe(_TIMELINE), _none),
        "distributions": (JsonList(_VERSION, 100), list),
    },
)
_ADVICE = Keys(
    {
        "figure_bytes": _SIZE,
        "limit_bytes": _SIZE,
        "trials": JsonList(Keys({"change": _WORD, "write": Text(500), "bytes": _SIZE}), 100),
        "untried": JsonList(_WORD, 100),
    }
)
_LOCK = Keys(
    {"status": Of(Choice(LOCK_STATUSES)), "reason": _LINES},
    {
        "entry": (
            Maybe(
                Keys(
                    {
                        "bytes": _SIZE,
                        "metric": _WORD,
                        "components": MapOf(_WORD, _CHANGE),
                        "gpus": Of(whole(1, most=10**6)),
                        "gpu": _NAME,
                        "device": _NAME,
                        "torch": _NAME,
                    }
                )
            ),
            _none,
        ),
        "limit_bytes": (Maybe(_SIZE), _none),
        "changes": (JsonList(_NAME, 100), list),
    },
)
_ROW = Keys(
    {
        "nodeid": Text(10_000),
        "file": Text(1000),
        "line": Of(whole(0, most=10**9)),
        "verdict": Of(Choice(VERDICTS)),
        "reason": _LINES,
        "estimates": JsonList(_FIGURE),
    },
    {
        "budget": (Maybe(_BUDGET), _none),
        "limit_bytes": (Maybe(_SIZE), _none),
        "details": (_LINES, str),
        "measurements": (JsonList(_FIGURE), list),
        "not_measured": (_LINES, str),
        "measured_on": _OPTIONAL_PLACE,
        "raised": (_FLAG, bool),
        "cached": (_FLAG, bool),
        "rank": (Maybe(Of(whole(0, most=10**6))), _none),
        "host_bytes": (Maybe(_SIZE), _none),
        "expected": (_FLAG, bool),
        "without_strict": (Maybe(Of(Choice(VERDICTS))), _none),
        "comparison": (Maybe(_COMPARISON), _none),
        "advice": (Maybe(_ADVICE), _none),
        "lock": (Maybe(_LOCK), _none),
    },
)


def _named(key: str) -> JsonShape:
    """A text, or an object that has the text under ``key`` and may have a reason."""
    full = Keys({key: Text(10_000)}, {"reason": (_LINES, str)})

    def shape(value: object, path: str) -> Any:
        return full({key: value} if isinstance(value, str) else value, path)

    return shape


_HEAD_COMPARISON = Keys(
    {},
    {
        "base": (
            Maybe(Keys({}, {"ref": _OPTIONAL_PLACE, "commit": _OPTIONAL_PLACE})),
            _none,
        ),
        "removed": (JsonList(_named("nodeid"), 100_000), list),
        "skipped": (JsonList(Text(10_000), 100_000), list),
        "unused_waivers": (JsonList(_named("test"), 10_000), list),
        "distributions": (JsonList(_VERSION), list),
    },
)
_DOCUMENT = Keys(
    {"schema_version": _SIZE, "tests": JsonList(_ROW, 100_000)},
    {
        "tool": (
            Keys({}, {"version": _OPTIONAL_PLACE, "testing": (_FLAG, bool)}),
            lambda: {"version": None, "testing": False},
        ),
        "torch": (
            Keys({}, {"version": _OPTIONAL_PLACE, "alloc_conf": _OPTIONAL_PLACE}),
            lambda: {"version": None, "alloc_conf": None},
        ),
        "git": (
            Maybe(
                Keys(
                    {},
                    {
                        "head": _OPTIONAL_PLACE,
                        "dirty": (Maybe(_FLAG), _none),
                        "files": (MapOf(_PATH, _PATH, 10_000), dict),
                    },
                )
            ),
            _none,
        ),
        "comparison": (Maybe(_HEAD_COMPARISON), _none),
        "distributions": (Maybe(MapOf(_NAME, _NAME, 10_000)), _none),
    },
)


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
    document: Mapping[str, Any] = _DOCUMENT(value, "")
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
        timeline["phases"][index] = [_SIZE(phase[0], f"{where}[0]"), _WORD(phase[1], f"{where}[1]")]
    if timeline["peak_moment"] not in moments:
        raise Misfit(f"{path}.peak_moment", "must be one of the moments", timeline["peak_moment"])
    return int(moments.index(timeline["peak_moment"]))
