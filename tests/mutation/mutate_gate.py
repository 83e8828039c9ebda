"""Break one check of the product at a time, and show that some test goes red.

``python tests/mutation/mutate_gate.py`` breaks everything in ``table/*.yaml``, one after the other, each in a
copy of the package in a temporary folder that comes first on PYTHONPATH: the work tree stays as it is. Names
of mutations or of areas (a file of the table) choose some. ``--write`` keeps the outcomes in
``results.json``, writes the long page (``--page FILE``, default ``build/reports/mutations.md``) and the
summary in ``docs/accuracy.md``; ``--only-kept`` writes both from ``results.json`` and runs nothing. The exit
status is 1 if a mutation is stale (its old text is not there exactly once), if one survives, or if the tests
are red without any.
"""

import argparse
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGE = "pytest_membudget"
TABLE = Path(__file__).parent / "table"
#: The last outcome of each mutation: the pages are made of them.
RESULTS = Path(__file__).parent / "results.json"

#: Seconds that the tests of one mutation may take. A test that hangs is not one that goes red.
_LIMIT = 240
_FAILED = 1
#: From as many mutations on torch is imported once for all of them.
_MANY = 10
_ENDING = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """One check broken: in ``file`` of the package ``new`` replaces ``old``; ``tests`` should see it."""

    area: str
    name: str
    breaks: str
    """What is wrong then, in a few words."""
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Test files, or single tests in them, of a few seconds."""

    def mutated(self, package: Path) -> str:
        """The file's text with the mutation; ``Stale`` if the old text is not there exactly once."""
        path = package / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            there = f"is there {found} times" if path.is_file() else "has no file"
            raise Stale(f"{self.area}/{self.name}: in {self.file} the old text {there}: {self.old!r}")
        return text.replace(self.old, self.new)


class Stale(Exception):  # noqa: N818 - it says what is to be done
    """The source has moved on: the mutation has to be written again."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: the first test that went red, or why none did."""

    mutation: Mutation
    caught_by: str | None
    seconds: float
    why: str = ""


def read_table(folder: Path = TABLE) -> list[Mutation]:
    """All mutations, area by area."""
    return [
        Mutation(
            path.stem,
            row["name"],
            row["breaks"],
            row["file"],
            row["old"],
            row["new"],
            (row["tests"],) if isinstance(row["tests"], str) else tuple(row["tests"]),
        )
        for path in sorted(folder.glob("*.yaml"))
        for row in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]


def chosen(mutations: Sequence[Mutation], names: Sequence[str]) -> list[Mutation]:
    """Those whose name or area is in ``names``; all where there are none. ``SystemExit`` for unknown ones."""
    unknown = (
        set(names) - {mutation.name for mutation in mutations} - {mutation.area for mutation in mutations}
    )
    if unknown:
        raise SystemExit(f"there is no mutation and no area named {', '.join(sorted(unknown))}")
    return [m for m in mutations if not names or m.name in names or m.area in names]


def stale(mutations: Iterable[Mutation], package: Path) -> list[str]:
    """What has to be written again, a line each."""
    lines = []
    for mutation in mutations:
        try:
            mutation.mutated(package)
        except Stale as error:
            lines.append(str(error))
    return lines


@contextlib.contextmanager
def copied(package: Path, mutation: Mutation | None = None) -> Iterator[Path]:
    """A folder with a copy of ``package``, mutated: to be put first on PYTHONPATH."""
    with tempfile.TemporaryDirectory(prefix="membudget-mutation-") as folder:
        copy = Path(folder, PACKAGE)
        shutil.copytree(package, copy)
        if mutation is not None:
            path = copy / mutation.file
            path.write_text(mutation.mutated(package), encoding="utf-8")
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                compiled.unlink()  # known by its source's size and second of change, which may be the same
        yield Path(folder)


def run_tests(folder: Path, tests: Iterable[str], *, to_the_end: bool = False) -> tuple[int | None, str]:
    """Exit status and output of ``tests`` with the package of ``folder``; no status if they do not end.

    They run in a child of this process, which has imported what takes long, and never the package itself.
    """
    assert PACKAGE not in sys.modules
    # most tests need no hypothesis, and its plugin takes longer to import than they run
    options = ["-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    options += [] if to_the_end else ["-x"]
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = os.fork()
        if child == 0:
            _be_session(folder, [*options, *dict.fromkeys(tests)], output.fileno())
        status = _status_of(child, None if to_the_end else _LIMIT)
        output.seek(0)
        return status, output.read()


def _be_session(folder: Path, arguments: list[str], output: int) -> NoReturn:
    """The child: a pytest session with the package of ``folder``, also in processes that it starts."""
    status = 70
    try:
        os.setsid()  # so that all of it can be ended
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(ROOT)
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            del os.environ[name]
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        os.environ.update(PYTHONPATH=path, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        sys.path.insert(0, str(folder))
        package = importlib.import_module(PACKAGE)
        if not str(package.__file__).startswith(str(folder)):
            raise RuntimeError(f"{package.__file__} is not the copy in {folder}")
        status = int(pytest.main(arguments))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _status_of(child: int, limit: float | None) -> int | None:
    """The exit status of ``child``; None if it had to be ended after ``limit`` seconds."""
    begin = time.monotonic()
    try:
        while limit is None or time.monotonic() < begin + limit:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what the session has left behind too
    os.waitpid(child, 0)
    return None


def first_red(output: str) -> str | None:
    """The first test that failed, as pytest's summary names it."""
    found = _ENDING.search(output)
    return found[1] if found else None


def try_mutation(mutation: Mutation, package: Path) -> Outcome:
    """Break the check and run the tests that should see it."""
    begin = time.monotonic()
    with copied(package, mutation) as folder:
        status, output = run_tests(folder, mutation.tests)
    seconds = time.monotonic() - begin
    if status is None:
        return Outcome(mutation, None, seconds, f"its tests did not end within {_LIMIT} s")
    if status == _FAILED and (red := first_red(output)) is not None:
        return Outcome(mutation, red, seconds)
    why = "its tests are green" if status == 0 else f"pytest ended with {status}: {output.strip()[-2000:]}"
    return Outcome(mutation, None, seconds, why)


def red_without(mutations: Iterable[Mutation], package: Path) -> list[str]:
    """The tests that are red with nothing broken: what they caught would prove nothing."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    with copied(package) as folder:
        for _ in range(2):  # those that are red beside others are run again: mutations run them apart
            status, output = run_tests(folder, tests, to_the_end=True)
            tests = [match[1] for match in _ENDING.finditer(output)]
            if status == 0 or not tests:
                break
    if status == 0:
        return []
    return tests or [f"pytest ended with {status}: {output[-3000:]}"]


def kept_of(outcome: Outcome) -> dict[str, Any]:
    """What ``results.json`` has of an outcome."""
    mutation = outcome.mutation
    return {
        "area": mutation.area,
        "name": mutation.name,
        "breaks": mutation.breaks,
        "caught_by": outcome.caught_by,
        "seconds": round(outcome.seconds, 1),
        "why": outcome.why,
    }


def merged(
    kept: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]], mutations: Iterable[Mutation]
) -> list[dict[str, Any]]:
    """``kept`` with ``new`` in place of earlier rows, in the table's order; others are dropped."""
    rows = {(row["area"], row["name"]): row for row in [*kept, *new]}
    keys = [(mutation.area, mutation.name) for mutation in mutations]
    return [rows[key] for key in keys if key in rows]


def read_kept(path: Path = RESULTS) -> dict[str, Any]:
    """The kept rows and the remark on them; no rows where there is no file."""
    if not path.exists():
        return {"remark": "", "outcomes": []}
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write_kept(kept: dict[str, Any], path: Path = RESULTS) -> None:
    """A line for each mutation, so that a change shows as the lines that changed."""
    rows = ",\n".join(json.dumps(row) for row in kept["outcomes"])
    text = f'{{"remark": {json.dumps(kept["remark"])}, "outcomes": [\n{rows}\n]}}\n'
    path.write_text(text, encoding="utf-8")


def summary(kept: dict[str, Any]) -> str:
    """The counts in a line, as the docs show them."""
    rows = kept["outcomes"]
    caught = sum(row["caught_by"] is not None for row in rows)
    counts = f"{len(rows)} mutations, {caught} caught, {len(rows) - caught} survived."
    return f"{counts} {kept['remark']}".strip()


def page(kept: dict[str, Any]) -> str:
    """All outcomes as Markdown."""
    lines = [
        "# Mutations",
        "",
        "Each row breaks one check of the product on purpose, in a copy of the package, and names the first",
        "test that fails. The same tests pass without a mutation. A row is the mutation's last run.",
        "`python -m tox -e mutation` runs the list in `tests/mutation/table` again.",
        "",
        summary(kept),
    ]
    for area in dict.fromkeys(row["area"] for row in kept["outcomes"]):
        lines += [
            "",
            f"## {area.lstrip('0123456789_')}",
            "",
            "| mutation | what is broken | caught by | seconds |",
        ]
        lines.append("|---|---|---|---|")
        lines += [_line(row) for row in kept["outcomes"] if row["area"] == area]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    by = f"`{row['caught_by']}`" if row["caught_by"] else f"**survived**: {row['why'].splitlines()[0]}"
    cells = (row["name"], row["breaks"], by, f"{row['seconds']:.1f}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _write(kept: dict[str, Any], path: Path | None) -> None:
    """The long page and the summary."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # a program has only its own folder there
    from benchmarks.pages import write_pages

    write_pages("mutations", page(kept), summary(kept), path)


def _import_slow_ones(count: int) -> None:
    """What most tests import, once for all of them; a few mutations are not worth it."""
    if count >= _MANY:
        importlib.import_module("torch")
    gc.freeze()  # pytest collects garbage at its end: not again and again what is here already


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutations, or areas; all where none is named")
    parser.add_argument("--write", action="store_true", help="keep the outcomes, and write the pages")
    parser.add_argument("--only-kept", action="store_true", help="run nothing: pages from the kept outcomes")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="the long page (default build/reports/mutations.md)"
    )
    parser.add_argument("--list", action="store_true", help="name the mutations and end")
    parser.add_argument("--processes", type=int, default=1, help="mutations tried at once")
    parser.add_argument("--skip-unbroken", action="store_true", help="do not run the tests unbroken first")
    options = parser.parse_args(arguments)
    mutations = chosen(read_table(), options.names)
    if options.list:
        for mutation in mutations:
            print(f"{mutation.area}/{mutation.name}: {mutation.breaks}")
        return 0
    if options.only_kept:
        _write(read_kept(), options.page)
        return 0
    with copied(ROOT / "src" / PACKAGE) as folder:  # so that the sources may be edited meanwhile
        return _try_all(mutations, folder / PACKAGE, options)


def _try_all(mutations: Sequence[Mutation], package: Path, options: argparse.Namespace) -> int:
    problems = stale(mutations, package)
    if not problems and not options.skip_unbroken:
        problems = [f"red with nothing broken: {test}" for test in red_without(mutations, package)]
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    _import_slow_ones(len(mutations))
    outcomes = []
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("fork")) as pool:
        for outcome in pool.map(partial(try_mutation, package=package), mutations):
            outcomes.append(outcome)
            name = f"{outcome.mutation.area}/{outcome.mutation.name}"
            ended = outcome.caught_by or f"SURVIVED: {outcome.why}"
            print(f"{outcome.seconds:5.1f} s  {name}: {ended}", flush=True)
    survived = [outcome for outcome in outcomes if outcome.caught_by is None]
    print(f"{len(outcomes)} mutations, {len(outcomes) - len(survived)} caught, {len(survived)} survived")
    if options.write:
        kept = read_kept()
        kept["outcomes"] = merged(kept["outcomes"], map(kept_of, outcomes), read_table())
        if not options.names:
            kept["remark"] = ""  # it was on earlier runs
        write_kept(kept)
        _write(kept, options.page)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
