"""Runs of the published cases: one for each family, kept where they are asked to be."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_membudget.devices.choice import find_stand_in

from .published_figures import Published

_CASES = Path(__file__).parent / "cases"
_SETTINGS = Path(__file__).parent / "pyproject.toml"


@dataclass(frozen=True, slots=True)
class CasesRun:
    """What came of the published cases."""

    torch: str
    """Its version; several, where families were run with several."""
    cudnn: str
    """That planned convolutions."""
    rows: Sequence[Any]
    """Of reports."""
    not_run: Sequence[str] = ()
    """Families of which nothing is kept, where only what is kept was asked for."""


def cases_run(
    published: Sequence[Published],
    processes: int,
    kept: Path | None,
    *,
    only_kept: bool = False,
    selected: bool = False,
) -> CasesRun:
    """A run of ``published``; what lies in ``kept`` is taken from there.

    Each family has its own session: one that is kept is not run again. ``only_kept``: none is run.
    ``selected``: ``published`` has only some of the cases, and the others' tests are not run.
    """
    documents, not_run = [], []
    with _folder(kept) as folder:
        for family in dict.fromkeys(entry.family for entry in published if entry.test):
            path = folder / f"{family.replace(' ', '_')}.json"
            if not path.exists() and only_kept:
                not_run.append(family)
                continue
            if not path.exists():
                entries = [entry for entry in published if entry.family == family]
                _write(path, _document(entries, processes, selected=selected))
            documents.append(json.loads(path.read_text(encoding="utf-8")))
    rows = [row for document in documents for row in document["tests"]]
    return CasesRun(_all_of(documents, "torch"), _all_of(documents, "cudnn"), rows, not_run)


def _document(entries: Sequence[Published], processes: int, *, selected: bool) -> dict[str, Any]:
    """The cases of ``entries``, run: the rows of the report, and what they were run with."""
    names = sorted({entry.test.partition("::")[0] for entry in entries if entry.test})
    with tempfile.TemporaryDirectory(prefix="membudget-accuracy-") as folder:
        command = [sys.executable, "-m", "pytest", "--membudget", f"--membudget-report={folder}", "-q"]
        command += ["-c", str(_SETTINGS)]
        command += ["--membudget-measure=off", "--membudget-cache=off"]
        command += ["-n", str(processes)] if processes > 1 else []
        command += ["-k", " or ".join(entry.id for entry in entries)] if selected else []
        subprocess.run([*command, *(str(_CASES / name) for name in names)], check=False)
        report = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    return {"torch": report["torch"], "cudnn": cudnn_version(), "tests": report["tests"]}


def cudnn_version() -> str:
    """The cuDNN that plans convolutions here: of the workers' torch, or of the environment."""
    torch = find_stand_in().torch
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        for found in metadata.distributions(name=name, path=[os.fspath(torch.folder), *sys.path]):
            return f"cuDNN {found.version}"
    return "no cuDNN: the workspaces of convolutions are missing"


def _all_of(documents: Iterable[dict[str, Any]], key: str) -> str:
    return " and ".join(dict.fromkeys(str(document[key]) for document in documents))


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="membudget-accuracy-") as folder:
        yield Path(folder)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
