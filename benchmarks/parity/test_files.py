"""Files of budgeted tests (cases, examples, clients), each estimated on both devices, test by test."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from .comparing import FAKE_ERROR, STAND_IN_ERROR, Difference, first_line, whose_fault
from .processes import DEVICES, FAKE, ROOT, environment_of

#: The parts that are files of tests: where they lie, and their pattern.
TEST_PARTS = {
    "cases": ("benchmarks/cases", "test_*.py"),
    "examples": ("examples", "test_*.py"),
    "clients": ("clients", "test_*.py"),
}


def compared_files(
    part: str, options: Any, kept: Container[str] = ()
) -> Iterator[tuple[str, int, list[Difference]]]:
    """Each file of the part: how many tests it has, and what differs.

    Of files in ``kept`` there are results; ``--resume`` does not run those again.
    """
    folder, pattern = TEST_PARTS[part]
    for path in sorted((ROOT / folder).glob(pattern)):
        if (options.only and path.stem not in options.only) or (options.resume and path.stem in kept):
            continue
        reports = [_rows(path, device, options) for device in DEVICES]
        if not any(reports):
            raise RuntimeError(f"{path}: no test of it was estimated on either device")
        yield path.stem, len(reports[0]), compared_reports(path.stem, *reports)


def compared_reports(
    work: str, stand_in: Mapping[str, Mapping[str, Any]], fake: Mapping[str, Mapping[str, Any]]
) -> list[Difference]:
    """What differs between the rows of two reports, each by its test."""
    differences = []
    for test in stand_in.keys() | fake.keys():
        one, other = stand_in.get(test, {}), fake.get(test, {})
        peaks = _peak_bytes(one), _peak_bytes(other)
        if peaks[0] == peaks[1]:
            continue
        fault, note = _fault(one, other, peaks)
        name = test.rpartition("::")[2]
        differences.append(
            Difference(work, name, "whole test", fault, note, (), (), peaks[0] or 0, peaks[1] or 0)
        )
    return sorted(differences, key=lambda one: one.sample)


def _fault(
    stand_in: Mapping[str, Any], fake: Mapping[str, Any], peaks: tuple[int | None, int | None]
) -> tuple[str, str]:
    if peaks[0] is None:
        return STAND_IN_ERROR, _reason(stand_in)
    if peaks[1] is None:
        return FAKE_ERROR, _reason(fake)
    reports = [_estimate(row) for row in (stand_in, fake)]
    not_modelled = [list(report.get("not_modelled") or ()) for report in reports]
    return whose_fault(not_modelled[0], not_modelled[1], [])


def _peak_bytes(row: Mapping[str, Any]) -> int | None:
    """None where there is none, or the body ended with an error: what it took until then says nothing."""
    if row.get("verdict") == "error":
        return None
    peak = _estimate(row).get("peak") or {}
    size_bytes = peak.get("allocated_bytes")
    return int(size_bytes) if size_bytes is not None else None


def _estimate(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The estimate of a report's row that takes most, of its ranks; empty where there is none."""
    found = row.get("estimates") or [{}]
    return max(found, key=lambda one: (one.get("peak") or {}).get("allocated_bytes") or 0)


def _reason(row: Mapping[str, Any]) -> str:
    return first_line(str(row.get("reason") or "no report of it"))


def _rows(path: Path, device: str, options: Any) -> dict[str, Mapping[str, Any]]:
    """The report's row of each test of the file; ``--out`` keeps the report: it says what held memory."""
    with tempfile.TemporaryDirectory(prefix="membudget-parity-") as folder:
        environment = {**environment_of(FAKE, options.gpu), "MEMBUDGET_CACHE_DIR": folder}
        environment.pop("CUDA_VISIBLE_DEVICES")  # the plugin sees to it
        command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", *_plugin()]
        command.append("--membudget")
        command += [f"--membudget-device={device}", "--membudget-measure=off", f"--membudget-report={folder}"]
        subprocess.run(
            [*command, str(path)], cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL
        )
        try:
            text = (Path(folder) / "report.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{path.stem}-{device}.json").write_text(text, encoding="utf-8")
    content = json.loads(text)
    return {row["nodeid"]: row for row in content["tests"]}


def _plugin() -> list[str]:
    """Where the package is not installed, its plugin is loaded from the source tree."""
    try:
        metadata.distribution("pytest-membudget")
    except metadata.PackageNotFoundError:
        return ["-p", "pytest_membudget.plugin"]
    return []
