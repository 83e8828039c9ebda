"""What pytest's start-up costs more with the plugin installed and not used: nothing, within noise.

``pytest --collect-only`` over a folder with a hundred tests that have no budgets, in turn without the plugin
(``-p no:membudget``) and with it. Processor time of each run, which a busy machine stretches less than the
clock; the ratio of medians counts, beside that of the runs without the plugin in two halves: the noise.

    python -m benchmarks.start_up [--rounds 15]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TESTS = "import pytest\n\n\n@pytest.mark.parametrize('number', range(100))\ndef test_it(number):\n    pass\n"
_VARIANTS: Mapping[str, tuple[str, ...]] = {
    "without": ("-p", "no:membudget"),
    "with": (),
    "without again": ("-p", "no:membudget"),
}


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds of processor time of single runs, by variant."""

    seconds: Mapping[str, list[float]]

    @property
    def ratio(self) -> float:
        """With the plugin over without it."""
        without = [*self.seconds["without"], *self.seconds["without again"]]
        return statistics.median(self.seconds["with"]) / statistics.median(without)

    @property
    def noise(self) -> float:
        """Without the plugin over without it."""
        return statistics.median(self.seconds["without again"]) / statistics.median(self.seconds["without"])


def quiet_environment(bytecode: str) -> dict[str, str]:
    """This process's, with nothing of a session's that runs this, and compiled code kept in ``bytecode``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # else each run compiles the plugin, as no installed one does
    return {**kept, "PYTHONPYCACHEPREFIX": bytecode, "CUDA_VISIBLE_DEVICES": ""}


def cpu_seconds(command: list[str], folder: str, environment: Mapping[str, str]) -> float:
    """Processor time of one run of ``command`` and of what it has started and waited for."""
    before = os.times()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(rounds: int) -> StartUp:
    """``rounds`` runs of each variant in turn, after one of each that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in _VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder, "project")
        tests.mkdir()
        (tests / "pyproject.toml").touch()
        (tests / "test_it.py").write_text(_TESTS, encoding="utf-8")
        environment = quiet_environment(os.path.join(folder, "bytecode"))
        for number in range(rounds + 1):
            for name, options in _VARIANTS.items():
                command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
                found = cpu_seconds(command, str(tests), environment)
                if number:
                    seconds[name].append(found)
    return StartUp(seconds)


def main() -> int:
    """Print the table; 1 if the plugin costs more than a tenth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--most-ratio", type=float, default=1.1)
    arguments = parser.parse_args()
    found = measure(arguments.rounds)
    for name, seconds in found.seconds.items():
        median = statistics.median(seconds)
        print(f"{name:14} {median:.3f} s (median of {len(seconds)}), {min(seconds):.3f} least")
    print(f"with the plugin {found.ratio:.3f} of without; noise {found.noise:.3f}")
    return int(found.ratio > arguments.most_ratio)


if __name__ == "__main__":
    raise SystemExit(main())
