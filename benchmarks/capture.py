"""Runs the registered steps on a GPU, and stores what each took: peaks, components, a compact history.

    python -m benchmarks.capture                          # all steps, into benchmarks/measured
    python -m benchmarks.capture --part 1/3               # a third of them by expected time
    python -m benchmarks.capture --only llama-1b bert-base --again
    python -m benchmarks.capture --out /tmp/measured --minutes 9
    python -m benchmarks.capture --device stand-in --out /tmp/tried   # without a GPU: what torch would take

Each step runs twice, in fresh processes with its own allocator settings: bare, and measured. The two have the
same peaks, byte for byte: measuring changes nothing; where they have not, that is stored and told. What is
there already, of the same step and versions, is not run again. A step that fails is stored as failed.
Exits with 1 where a step failed or was changed by measuring, with 2 where nothing can run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_membudget.units import GIB

from .captured import (
    MOST_HISTORY_BYTES,
    content_of,
    folder_of,
    is_captured,
    write_captured,
)
from .step_processes import Clock, Run, StepProcess, started_ahead
from .steps.registry import STEPS
from .steps.step import Step

MEASURED = Path(__file__).parent / "measured"
#: What has to pass before the card of a machine is known.
_CARD_SECONDS = 180.0
_LINE = "\n"


def main(arguments: Sequence[str] | None = None, steps: Sequence[Step] = STEPS) -> int:
    """Run what is missing; the exit status."""
    options = _options(arguments)
    try:
        chosen = of_part(chosen_steps(steps, options.only), options.part)
    except ValueError as error:
        print(f"capture: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="membudget-capture-") as scratch:
        return _capture(chosen, options, Path(scratch))


def chosen_steps(steps: Sequence[Step], only: Sequence[str] | None) -> list[Step]:
    """Those whose ids are in ``only``, or all. ``ValueError`` for an unknown id."""
    unknown = sorted(set(only or ()) - {step.id for step in steps})
    if unknown:
        raise ValueError(f"--only {unknown[0]}: write one of {', '.join(step.id for step in steps)}")
    return [step for step in steps if not only or step.id in only]


def of_part(steps: Sequence[Step], part: str) -> list[Step]:
    """Part ``i/n`` of ``steps``, in their order: the parts are expected to take equally long.

    Raises ``ValueError`` for a text of another form.
    """
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"--part {part}: write i/n, as in 1/3 for the first of three")
    seconds = [0.0] * int(count)
    mine = set()
    for step in sorted(steps, key=lambda step: (-step.expected_seconds, step.id)):
        least = seconds.index(min(seconds))
        seconds[least] += step.expected_seconds
        if least + 1 == int(number):
            mine.add(step.id)
    return [step for step in steps if step.id in mine]


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capture", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n parts of equal expected time")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these steps")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--device", choices=("cuda", "stand-in"), default="cuda")
    parser.add_argument("--gpu", default="H200-141GB", help="the card of the stand-in")
    parser.add_argument("--out", type=Path, default=MEASURED, help="folder (default benchmarks/measured)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a run may take (default 120)")
    parser.add_argument("--minutes", type=float, help="begin no step that would end after these")
    parser.add_argument("--ahead", type=int, default=2, help="processes started ahead (default 2)")
    return parser.parse_args(arguments)


def _capture(steps: Sequence[Step], options: Any, scratch: Path) -> int:
    clock = Clock()
    card = Run(None, "card", options.device, _gpu(options))
    told = StepProcess(card, scratch, -1).answer(_CARD_SECONDS)
    if told["outcome"] != "ok":
        print(f"capture: no card to run on: {told['message']}", file=sys.stderr)
        return 2
    versions = told["versions"]
    folder = folder_of(options.out, versions)
    todo = [step for step in steps if options.again or not is_captured(folder, step, versions)]
    fitting = [step for step in todo if step.gib * GIB <= versions["total_bytes"]]
    for step in todo:
        if step not in fitting:
            print(f"{step.id}: left out, it takes some {step.gib:g} GiB", flush=True)
    there = len(steps) - len(todo)
    print(
        f"{versions['card']}, torch {versions['torch']}: {len(fitting)} steps"
        + (f", {there} are there already" if there else ""),
        flush=True,
    )
    return _Session(options, scratch, folder, versions, clock).run(fitting)


class _Session:
    def __init__(
        self, options: Any, scratch: Path, folder: Path, versions: Mapping[str, Any], clock: Clock
    ) -> None:
        self._options = options
        self._scratch = scratch
        self._folder = folder
        self._versions = versions
        self._clock = clock

    def run(self, steps: Sequence[Step]) -> int:
        left = list(steps)
        troubles = 0
        processes = started_ahead(self._runs(steps), self._scratch, self._options.ahead)
        try:
            for bare, measured in zip(processes, processes, strict=True):
                if self._is_too_late(left[0], bare, measured):
                    print(f"stopped after {self._clock.passed_seconds:.0f} s; {len(left)} steps are left")
                    break
                step = left.pop(0)
                troubles += self._one(step, bare, measured)
                self._clock.done(step.expected_seconds)
                self._say_time(left)
        finally:
            processes.close()  # type: ignore[attr-defined]
        print(f"written: {self._folder}")
        return 1 if troubles else 0

    def _runs(self, steps: Sequence[Step]) -> Iterator[Run]:
        gpu = _gpu(self._options)
        for step in steps:
            yield Run(step, "bare", self._options.device, gpu)
            yield Run(step, "measured", self._options.device, gpu, self._history(step))

    def _history(self, step: Step) -> Path:
        return self._scratch / f"{step.id}.history.json.gz"

    def _is_too_late(self, step: Step, bare: StepProcess, measured: StepProcess) -> bool:
        minutes = self._options.minutes
        ends = self._clock.passed_seconds + self._clock.left_seconds(step.expected_seconds)
        if minutes is None or ends <= minutes * 60:
            return False
        bare.stop()
        measured.stop()
        return True

    def _one(self, step: Step, bare: StepProcess, measured: StepProcess) -> bool:
        """Run and store one step; whether there is anything wrong with it."""
        unmeasured: dict[str, Any] = {}
        bare_answer = bare.answer(self._options.limit)
        if bare_answer["outcome"] == "ok":
            measured_answer = measured.answer(self._options.limit)
        else:
            measured.stop()
            measured_answer = unmeasured
        content = content_of(step, self._versions, bare_answer, measured_answer)
        history: Path | None = self._history(step)
        size_bytes = (content["history"] or {}).get("bytes", 0)
        if not 0 < size_bytes <= MOST_HISTORY_BYTES:
            history = None
            if size_bytes:
                content["history"]["dropped"] = f"larger than {MOST_HISTORY_BYTES} bytes"
        write_captured(self._folder, step.id, content, history)
        print(_line(content), flush=True)
        return content["outcome"] != "ok" or bool(content["changed_by_measuring"])

    def _say_time(self, left: Sequence[Step]) -> None:
        if left:
            seconds = self._clock.left_seconds(sum(step.expected_seconds for step in left))
            print(f"    {len(left)} steps left, about {seconds / 60:.1f} minutes", flush=True)


def _line(content: Mapping[str, Any]) -> str:
    name = content["step"]["id"]
    if content["outcome"] != "ok":
        where = f" ({content['where']})" if content["where"] else ""
        return f"{name}: {content['outcome']}: {content['message'].partition(_LINE)[0]}{where}"
    bare = content["bare"]
    sizes = f"allocated {bare['allocated_bytes'] / GIB:.3f}, reserved {bare['reserved_bytes'] / GIB:.3f} GiB"
    changed = "".join(
        f"; MEASURING CHANGES {metric}: {size:+,} bytes"
        for metric, size in content["changed_by_measuring"].items()
    )
    dropped = "; its history is dropped" if "dropped" in (content["history"] or {}) else ""
    return f"{name}: {sizes}, {bare['seconds']:.1f} + {content['measured_seconds']:.1f} s{changed}{dropped}"


def _gpu(options: Any) -> str | None:
    return options.gpu if options.device != "cuda" else None


if __name__ == "__main__":
    sys.exit(main())
