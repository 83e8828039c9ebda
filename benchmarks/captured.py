"""Where captured steps lie, and what is stored of each: one JSON a step, its compact history beside it.

``<folder>/<card>/<torch release>/<id>.json`` and ``<id>.history.json.gz``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .steps.step import Step

FORMAT = 1
PEAKS = ("allocated_bytes", "active_bytes", "reserved_bytes")
"""Of a bare run; a report has those of its metrics."""
#: A history whose file is larger is not kept.
MOST_HISTORY_BYTES = 300 * 2**10


@dataclass(frozen=True, slots=True)
class Captured:
    """One step as it was measured."""

    path: Path
    content: Mapping[str, Any]

    @property
    def step(self) -> Step:
        """As it was when it ran."""
        return Step.from_json(self.content["step"])

    @property
    def versions(self) -> Mapping[str, Any]:
        """Card and software."""
        versions: Mapping[str, Any] = self.content["versions"]
        return versions

    @property
    def outcome(self) -> str:
        """``ok``, ``out of memory``, ``timeout`` or ``error``."""
        return str(self.content["outcome"])

    @property
    def history(self) -> Path | None:
        """Its compact history, where it was kept."""
        path = history_path(self.path)
        return path if path.exists() else None


def folder_of(root: Path, versions: Mapping[str, Any]) -> Path:
    """Where steps lie that these versions ran."""
    return root / _name(str(versions["card"])) / _name(str(versions["torch"]))


def history_path(path: Path) -> Path:
    """Beside the step's JSON."""
    return path.with_name(f"{path.stem}.history.json.gz")


def read_captured(root: Path) -> list[Captured]:
    """All steps under ``root``. ``ValueError`` for a file that cannot be read."""
    found = []
    for path in sorted(root.glob("*/*/*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is no captured step: {error}") from error
        if content.get("format") != FORMAT:
            raise ValueError(f"{path} has format {content.get('format')!r}, not {FORMAT}: capture it again")
        found.append(Captured(path, content))
    return found


def is_captured(folder: Path, step: Step, versions: Mapping[str, Any]) -> bool:
    """Whether the step lies there already, measured as it is now and by the same versions."""
    try:
        content = json.loads((folder / f"{step.id}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    same_step = content.get("step") == json.loads(json.dumps(step.to_json()))
    return bool(same_step and content.get("versions") == dict(versions) and content.get("format") == FORMAT)


def content_of(
    step: Step, versions: Mapping[str, Any], bare: Mapping[str, Any], measured: Mapping[str, Any]
) -> dict[str, Any]:
    """What is stored of a step that was run twice; ``measured`` is empty where it was not."""
    failed = next((run for run in (bare, measured) if run and run["outcome"] != "ok"), None)
    content: dict[str, Any] = {
        "format": FORMAT,
        "step": step.to_json(),
        "text": measured.get("text", ""),
        "versions": dict(versions),
        "outcome": failed["outcome"] if failed else "ok",
        "message": failed.get("message", "") if failed else "",
        "where": failed.get("where", "") if failed else "",
        "bare": {name: value for name, value in bare.items() if name in (*PEAKS, "retries", "seconds")},
        "measured": measured.get("report"),
        "measured_seconds": measured.get("seconds"),
        "changed_by_measuring": changed_by_measuring(bare, measured) if failed is None else {},
        "history": measured.get("history"),
    }
    return content


def changed_by_measuring(bare: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, int]:
    """By how many bytes the measured run's peaks are above the bare one's; none where they are the same."""
    peak = measured["report"]["peak"]
    above = {f"{name}_bytes": peak[name] - bare[f"{name}_bytes"] for name in ("allocated", "reserved")}
    return {name: size for name, size in above.items() if size}


def write_captured(folder: Path, step_id: str, content: Mapping[str, Any], history: Path | None) -> None:
    """Store it, whole or not at all; ``history`` moves beside it, or stays where it is and is not kept."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{step_id}.json"
    history_path(path).unlink(missing_ok=True)
    if history is not None:
        history_path(path).write_bytes(history.read_bytes())
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+_-]+", "-", text).strip("-")
