"""A report as annotations of source lines: GitHub's workflow commands, GitLab's code quality."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...results.comparison import SHRUNK
from ..causes import cause_text
from ..document.document import Document
from ..status import (
    FAILURE,
    NOTICE,
    WARNING,
    ReportedTest,
    causes,
    explained,
    place_in,
    reported_tests,
    to_do,
)
from .escaping import command_data, command_property

#: GitHub shows this many annotations of a level for a step, and hides the rest silently.
_MOST = 10
_SEVERITIES = {FAILURE: "major", WARNING: "minor"}
_COMMANDS = {FAILURE: "error", WARNING: "warning", NOTICE: "notice"}


@dataclass(frozen=True, slots=True)
class _Annotation:
    level: str
    title: str
    text: str
    place: tuple[str, int] | None


def workflow_commands(document: Document, *, root: Path, prefix: str = "") -> str:
    """GitHub's workflow commands, a line each, the worst first: at marks of tests, and at lines that grew.

    ``root``: the folder that paths in the report start from; lines of files that are not in it (installed
    packages) are named, and not annotated. ``prefix``: the way there from the repository's root.
    """
    found = [one for test in reported_tests(document) for one in _of(test, root)]
    lines: list[str] = []
    for level in _COMMANDS:
        lines += _limited([one for one in found if one.level == level], level, prefix)
    return "".join(f"{line}\n" for line in lines)


def _of(one: ReportedTest, root: Path) -> Iterator[_Annotation]:
    if one.level not in _COMMANDS or (one.level == NOTICE and one.status != SHRUNK):
        return
    title = f"GPU memory: {one.word}"
    yield _Annotation(one.level, title, _text(one), place_in(f"{one.result.file}:{one.result.line}"))
    if one.level != FAILURE or one.growth_bytes <= 0:
        return
    for cause in causes(one, 1):
        place = place_in(cause.location)
        if place is not None and cause.bytes > 0 and (root / place[0]).is_file():
            text = f"{cause_text(cause, str)}, in {one.result.nodeid}"
            yield _Annotation(one.level, "GPU memory: what grew", text, place)


def _text(one: ReportedTest) -> str:
    return " ".join(filter(None, [f"{one.result.nodeid}:", explained(one, str), to_do(one, str)]))


def _limited(some: list[_Annotation], level: str, prefix: str) -> list[str]:
    """The first of ``some``; if some are left out, the last place says how many."""
    if len(some) <= _MOST:
        return [_line(one, prefix) for one in some]
    shown = [_line(one, prefix) for one in some[: _MOST - 1]]
    rest = f"and {len(some) - len(shown)} more; the job summary and report.json have them all"
    return [*shown, _line(_Annotation(level, "GPU memory", rest, None), prefix)]


def _line(one: _Annotation, prefix: str) -> str:
    properties = []
    if one.place is not None:
        file = f"{prefix.strip('/')}/{one.place[0]}" if prefix.strip("/") else one.place[0]
        properties = [f"file={command_property(file)}", f"line={max(1, one.place[1])}"]
    properties.append(f"title={command_property(one.title)}")
    return f"::{_COMMANDS[one.level]} {','.join(properties)}::{command_data(one.text)}"


def code_quality(document: Document) -> str:
    """GitLab's JSON of code quality: one entry for each test that fails or is over since before.

    The fingerprint is a hash of file, test and rule, so that it stays when lines move and figures change.
    """
    return (
        json.dumps([_entry(one) for one in reported_tests(document) if one.level in _SEVERITIES], indent=1)
        + "\n"
    )


def _entry(one: ReportedTest) -> dict[str, Any]:
    row = one.result
    rule = f"membudget-{one.status or row.verdict}"
    path, line = place_in(f"{row.file}:{row.line}") or (row.file.lstrip("/"), 1)
    return {
        "description": _text(one),
        "check_name": rule,
        "fingerprint": hashlib.sha256("\0".join((path, row.nodeid, rule)).encode()).hexdigest(),
        "severity": _SEVERITIES[one.level],
        "location": {"path": path.removeprefix("./"), "lines": {"begin": max(1, line)}},
    }
