"""Runs of the published cases: one for each device and family, kept where they are asked to be."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_membudget.devices.stand_in.environment import cuda_version_of_torch
from pytest_membudget.names import FAKE, STAND_IN

from .published_figures import Published

_CASES = Path(__file__).parent / "cases"
_SETTINGS = Path(__file__).parent / "pyproject.toml"
#: In the order of the page's columns.
DEVICES = (STAND_IN, FAKE)


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """What came of the published cases on one device."""

    device: str
    torch: str
    """Its version; several, where families were run with several."""
    cudnn: str
    """That planned convolutions."""
    rows: Sequence[Any]
    """Of reports."""
    not_run: Sequence[str] = ()
    """Families of which nothing is kept, where only what is kept was asked for."""


def devices_here() -> tuple[str, ...]:
    """The devices that the installed torch can be run on."""
    return DEVICES if cuda_version_of_torch() is not None else (FAKE,)


def device_runs(
    published: Sequence[Published],
    devices: Iterable[str],
    processes: int,
    kept: Path | None,
    *,
    only_kept: bool = False,
    selected: bool = False,
) -> list[DeviceRun]:
    """A run of ``published`` on each of ``devices``; what lies in ``kept`` is taken from there.

    Each family has its own session: one that is kept is not run again. ``only_kept``: none is run.
    ``selected``: ``published`` has only some of the cases, and the others' tests are not run.
    """
    with _folder(kept) as folder:
        return [
            _run(device, published, processes, folder / device, only_kept=only_kept, selected=selected)
            for device in devices
        ]


def _run(
    device: str,
    published: Sequence[Published],
    processes: int,
    folder: Path,
    *,
    only_kept: bool,
    selected: bool,
) -> DeviceRun:
    documents, not_run = [], []
    for family in dict.fromkeys(entry.family for entry in published if entry.test):
        path = folder / f"{family.replace(' ', '_')}.json"
        if not path.exists() and only_kept:
            not_run.append(family)
            continue
        if not path.exists():
            entries = [entry for entry in published if entry.family == family]
            _write(path, _document(device, entries, processes, selected=selected))
        documents.append(json.loads(path.read_text(encoding="utf-8")))
    rows = [row for document in documents for row in document["tests"]]
    return DeviceRun(device, _all_of(documents, "torch"), _all_of(documents, "cudnn"), rows, not_run)


def _document(device: str, entries: Sequence[Published], processes: int, *, selected: bool) -> dict[str, Any]:
    """The cases of ``entries``, run: the rows of the report, and what they were run with."""
    names = sorted({entry.test.partition("::")[0] for entry in entries if entry.test})
    with tempfile.TemporaryDirectory(prefix="membudget-accuracy-") as folder:
        command = [sys.executable, "-m", "pytest", "--membudget", f"--membudget-report={folder}", "-q"]
        command += ["-c", str(_SETTINGS)]
        command += ["--membudget-measure=off", "--membudget-cache=off", f"--membudget-device={device}"]
        command += ["-n", str(processes)] if processes > 1 else []
        command += ["-k", " or ".join(entry.id for entry in entries)] if selected else []
        subprocess.run([*command, *(str(_CASES / name) for name in names)], check=False)
        report = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    return {"torch": report["torch"]["version"], "cudnn": cudnn_version(), "tests": report["tests"]}


def cudnn_version() -> str:
    """The cuDNN that plans convolutions here."""
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return f"cuDNN {metadata.version(name)}"
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
