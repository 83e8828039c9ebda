"""A report as annotations of source lines: GitHub's workflow commands, GitLab's code quality."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...results.comparison import SHRUNK
from ..causes import cause_text
from ..document import Document
from ..links import place_in
from ..status import FAILURE, NOTICE, WARNING, ReportedTest, reported_tests
from .escaping import command_data, command_property

#: GitHub shows this many annotations of a level for a step, and hides the rest silently.
_MOST = 10
_SEVERITIES = {FAILURE: "major", WARNING: "minor"}
_COMMANDS = {FAILURE: "error", WARNING: "warning", NOTICE: "notice"}


def workflow_commands(document: Document, *, root: Path, prefix: str = "") -> str:
    """GitHub's workflow commands, a line each, the worst first: at marks of tests, and at lines that grew.

    ``root``: the folder that paths in the report start from; lines of files that are not in it (installed
    packages) are named, and not annotated. ``prefix``: the way there from the repository's root.
    """
    lines: list[str] = []
    for level in _COMMANDS:
        of_level = [one for one in reported_tests(document) if one.level == level]
        found = [line for one in of_level for line in _commands(one, root, prefix)]
        if len(found) > _MOST:  # the last place says how many are left out
            rest = f"and {len(found) - _MOST + 1} more; the job summary and report.json have them all"
            found[_MOST - 1 :] = [_command(level, "GPU memory", rest)]
        lines += found
    return "".join(f"{line}\n" for line in lines)


def _commands(one: ReportedTest, root: Path, prefix: str) -> Iterator[str]:
    if one.level == NOTICE and one.result.status != SHRUNK:
        return
    place = place_in(one.result.location)
    yield _command(one.level, f"GPU memory: {one.word}", _text(one), place, prefix)
    for cause in one.causes(1) if one.level == FAILURE and one.result.growth_bytes > 0 else ():
        place = place_in(cause.location)
        if place is not None and cause.bytes > 0 and (root / place[0]).is_file():
            text = f"{cause_text(cause, str)}, in {one.result.nodeid}"
            yield _command(one.level, "GPU memory: what grew", text, place, prefix)


def _command(
    level: str, title: str, text: str, place: tuple[str, int] | None = None, prefix: str = ""
) -> str:
    properties = [f"title={command_property(title)}"]
    if place is not None:
        file = f"{prefix.strip('/')}/{place[0]}".removeprefix("/")
        properties[:0] = [f"file={command_property(file)}", f"line={max(1, place[1])}"]
    return f"::{_COMMANDS[level]} {','.join(properties)}::{command_data(text)}"


def _text(one: ReportedTest) -> str:
    return " ".join(filter(None, [f"{one.result.nodeid}:", one.explained(), *one.differences(), one.to_do()]))


def code_quality(document: Document) -> str:
    """GitLab's JSON of code quality: one entry for each test that fails or is over since before.

    The fingerprint is a hash of file, test and rule, so that it stays when lines move and figures change.
    """
    entries = [_entry(one) for one in reported_tests(document) if one.level in _SEVERITIES]
    return json.dumps(entries, indent=1) + "\n"


def _entry(one: ReportedTest) -> dict[str, Any]:
    row = one.result
    rule = f"membudget-{one.word.replace(' ', '-')}"
    path, line = place_in(row.location) or (row.file.lstrip("/"), 1)
    return {
        "description": _text(one),
        "check_name": rule,
        "fingerprint": hashlib.sha256("\0".join((path, row.nodeid, rule)).encode()).hexdigest(),
        "severity": _SEVERITIES[one.level],
        "location": {"path": path.removeprefix("./"), "lines": {"begin": max(1, line)}},
    }
