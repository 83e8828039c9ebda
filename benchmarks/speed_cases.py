"""What the speed page shows: sessions of pytest over small projects, and single estimates."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import start_up
from benchmarks.start_up import cpu_seconds, quiet_environment

#: Steps of eight models that differ in their sequences, each a second's work.
_STEPS = """
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.mark.parametrize("number", range(8))
@pytest.mark.mem_budget(gib=80)
def test_step(number):
    config = LlamaConfig(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=16,
        num_attention_heads=16, num_key_value_heads=8, use_cache=False,
    )
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, config.vocab_size, (1, 256 * (number + 1)), device="cuda")
    for _ in range(2):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
_READING = f"{_STEPS}        print(loss.item())\n"
_LLAMA = (
    "{config: {model_type: llama, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, "
    "num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256}}"
)
#: 1,000 budgets that differ in more than their limits.
_GRID = f"""
budgets:
  - name: a
    gib: 1000
    implementation: formulas
    model: {_LLAMA}
    grid:
      micro_batch: [1, 2, 3, 4, 5]
      sequence: {list(range(512, 5632, 512))}
      checkpointing: [none, full]
      optimizer.implementation: [foreach, fused]
      data_parallel_shard_degree: [1, 2, 4, 8, 16]
"""
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_ESTIMATED = (*_PYTEST, "--membudget", "--collect-only")


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the page."""

    what: str
    value: float
    most: float
    """What it is to be at most."""
    how: str
    unit: str = ""
    """Empty: it is a ratio."""


@contextmanager
def project(files: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """A folder with ``files``, and the variables for sessions in it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        root.mkdir()
        for name, text in {"pyproject.toml": "", **files}.items():
            (root / name).write_text(text, encoding="utf-8")
        variables = quiet_environment(os.path.join(folder, "bytecode"))
        yield str(root), {**variables, "MEMBUDGET_CACHE_DIR": os.path.join(folder, "kept")}


def clock_seconds(
    command: Sequence[str], folder: str, environment: Mapping[str, str], status: int = 0
) -> float:
    """What one run of ``command`` takes by the clock; it has to end with ``status``."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != status:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return time.perf_counter() - began


def in_turn(rounds: int, runs: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each of ``runs``, which are run in turn: a slow moment of the machine hits all."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds[name].append(run())
    return {name: statistics.median(found) for name, found in seconds.items()}


def unused(rounds: int) -> Iterator[Figure]:
    """Start-up with the plugin installed and not used."""
    found = start_up.measure(5 * rounds)
    how = f"`benchmarks/start_up.py`, processor time; the noise is {found.noise:.3f}"
    yield Figure("start-up with the plugin unused / pytest alone", found.ratio, 1.1, how)


def at_once(rounds: int) -> Iterator[Figure]:
    """Eight tests at once, of five one after the other."""
    first_five = " or ".join(f"[{number}]" for number in range(5))
    anew = [*_ESTIMATED, "--membudget-cache=off"]
    with project({"test_steps.py": _STEPS}) as (folder, variables):
        # as of one of so many workers of pytest-xdist: it has one processor
        one = {**variables, "PYTEST_XDIST_WORKER_COUNT": "9999"}
        clock_seconds(anew, folder, variables)
        medians = in_turn(
            rounds,
            {
                "five": lambda: clock_seconds([*anew, "-k", first_five], folder, one),
                "eight": lambda: clock_seconds(anew, folder, variables),
            },
        )
    cores = len(os.sched_getaffinity(0))
    how = f"on {cores} cores, by the clock: {pair(medians, 'eight', 'five')}"
    what = "eight traced tests / five of them run one after another"
    yield Figure(what, medians["eight"] / medians["five"], 1.0, how)


def further_runs(rounds: int) -> Iterator[Figure]:
    """What tests that read their loss are run again for, of their first runs."""
    anew = [*_ESTIMATED, "--membudget-cache=off", "--membudget-report=report", "-k", "[5] or [6] or [7]"]
    with project({"test_steps.py": _STEPS, "test_reading.py": _READING}) as (folder, variables):

        def figures(file: str) -> list[Any]:
            clock_seconds([*anew, file], folder, variables)
            report = json.loads(Path(folder, "report", "report.json").read_text(encoding="utf-8"))
            return [row["estimates"][0] for row in report["tests"]]

        alone = [one for _ in range(rounds) for one in figures("test_steps.py")]
        if any(one["variants"] for one in alone):
            raise SystemExit("a test that reads nothing was run again")
        found = [one for _ in range(rounds) for one in figures("test_reading.py")]
    shares = [one["seconds"] / other["seconds"] - 1 for one, other in zip(found, alone, strict=True)]
    count = max(len(one["variants"]) for one in found)
    how = f"{count} of them, by the seconds of report.json, median; what reads nothing has none"
    what = "further runs of a test that reads its loss / its first run"
    yield Figure(what, statistics.median(shares), 2.0, how)


def unchanged(rounds: int) -> Iterator[Figure]:
    """A session in which nothing has changed, of the one before it."""
    with project({"test_steps.py": _STEPS}) as (folder, variables):
        first = [cpu_seconds([*_ESTIMATED, "--membudget-cache=refresh"], folder, variables)]
        again = [cpu_seconds(list(_ESTIMATED), folder, variables) for _ in range(rounds)]
    medians = {"first": statistics.median(first), "again": statistics.median(again)}
    how = f"eight traced tests, processor time: {pair(medians, 'again', 'first')}"
    yield Figure("session in which nothing has changed / first session", again[-1] / first[0], 0.25, how)


def thousand(rounds: int) -> Iterator[Figure]:
    """1,000 analytic budgets that differ."""
    with project({"all.membudget.yaml": _GRID}) as (folder, variables):
        cpu_seconds(list(_ESTIMATED), folder, variables)
        runs = [cpu_seconds(list(_ESTIMATED), folder, variables) for _ in range(rounds)]
    how = f"`pytest --membudget --collect-only`, all of it, processor time, the least of {rounds}"
    yield Figure("1,000 distinct analytic budgets", min(runs), 5.0, how, "s")


def pair(medians: Mapping[str, float], one: str, other: str) -> str:
    """The two seconds of a figure."""
    return f"{medians[one]:.2f} s of {medians[other]:.2f} s"


#: In the page's order.
CASES: tuple[Callable[[int], Iterator[Figure]], ...] = (
    unused,
    at_once,
    further_runs,
    unchanged,
    thousand,
)
