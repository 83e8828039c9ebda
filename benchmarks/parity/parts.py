"""The parts of the comparison: which pieces of work each has, and how they are run on both devices."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.steps.registry import STEPS

from .comparing import Difference, compared
from .processes import Pair
from .results import FOLDER, Part
from .test_files import TEST_PARTS, compared_files

PARTS = ("operators", "steps", *TEST_PARTS)
#: Seconds between two lines of progress, and between two writings of the results.
_INTERVAL = 15.0

Compared = tuple[str, int, list[Difference], int]
"""A piece of work, how many samples it had, what differed, and how many failed on both."""


def run_part(name: str, options: Any) -> None:
    """Run a part and keep its results, while it runs and at its end."""
    part = Part.read(FOLDER, name)
    part.versions = _versions(options)
    began = said = time.monotonic()
    done = 0
    for work, samples, differences, failed in _RUNS[name](options, part):
        part.add(work, samples, differences, failed)
        _write_all(options.out, name, differences)
        done += 1
        if time.monotonic() - said > _INTERVAL:
            said = time.monotonic()
            print(f"{name}: {done} done after {said - began:.0f} s, now at {work}", flush=True)
            part.write(FOLDER)
    part.write(FOLDER)
    differing = len({row.work for row in part.rows})
    seconds = time.monotonic() - began
    print(f"{name}: {done} done in {seconds:.0f} s; {differing} of {len(part.counts)} differ")


def _operators(options: Any, part: Part) -> Iterator[Compared]:
    pair = Pair("operators", options.gpu)
    try:
        names = options.operators or pair.answers({"list": True})[0]["names"]
        for name in _left(names, part, options):
            stand_in, fake = pair.answers(
                {"name": name, "timeout": options.limit, "samples": options.samples}
            )
            failed = sum(
                bool(one["error"] and other["error"])
                for one, other in zip(stand_in.get("samples", ()), fake.get("samples", ()), strict=False)
            )
            yield name, len(stand_in.get("samples", ())), compared(name, stand_in, fake), failed
    finally:
        pair.close()


def _steps(options: Any, part: Part) -> Iterator[Compared]:
    wanted = [step for step in STEPS if not options.only or step.id in options.only]
    wanted = [step for step in wanted if step.id in _left([step.id for step in wanted], part, options)]
    for alloc_conf in dict.fromkeys(step.alloc_conf for step in wanted):
        pair = Pair("steps", options.gpu, alloc_conf)
        try:
            for step in (one for one in wanted if one.alloc_conf == alloc_conf):
                order = {"step": step.to_json(), "timeout": options.limit}
                stand_in, fake = pair.answers(order)
                failed = stand_in.get("outcome") != "ok" and fake.get("outcome") != "ok"
                yield step.id, 1, compared(step.id, stand_in, fake), int(failed)
        finally:
            pair.close()


def _test_files(options: Any, part: Part) -> Iterator[Compared]:
    for work, samples, differences in compared_files(part.name, options, part.counts):
        yield work, samples, differences, 0


_RUNS = {"operators": _operators, "steps": _steps, **dict.fromkeys(TEST_PARTS, _test_files)}


def _left(names: Sequence[str], part: Part, options: Any) -> list[str]:
    """What is to be run: all, or what the kept results do not have."""
    return [name for name in names if not options.resume or name not in part.counts]


def _write_all(folder: Path | None, name: str, differences: Sequence[Difference]) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(dataclasses.asdict(one)) + "\n" for one in differences)


def _versions(options: Any) -> dict[str, str]:
    samples = f"at most {options.samples}" if options.samples else "all"
    return {"torch": metadata.version("torch"), "card": options.gpu, "samples": samples}
