"""What CI runs: one part is left out, and says so, where its torch cannot be had; any other failure fails."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_RUN = "CI: NOT RUN: tox -e cuda-smoke, the tests on a CUDA build of torch: "


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def ci(tmp_path):
    """``ci(fails=..., cuda=..., in_time=...)``: what ran, the exit status, the output; nothing is installed.

    ``fails``: the command that does; ``cuda``: whether a CUDA build has come; ``in_time``: before its limit.
    """

    def run(fails="none", *, cuda=True, in_time=True):
        shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
        told = tmp_path / "told"
        program(tmp_path / "bin" / "python", f'echo "$*" >> {told}\n[ "$*" != "{fails}" ]')
        limited = 'shift 2; exec "$@"' if in_time else "exit 124"
        program(tmp_path / "bin" / "timeout", f'echo "limit $2" >> {told}\n{limited}')
        program(tmp_path / ".tox" / "cuda-smoke" / "bin" / "python", f"exit {0 if cuda else 1}")
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [tmp_path / ".ci" / "run"],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return told.read_text().splitlines(), done.returncode, done.stdout

    return run


BOTH = [
    "-m pip install --quiet tox",
    "-m tox",
    "limit 600",
    "-m tox -e cuda-smoke --notest",
    "-m tox -e cuda-smoke --skip-pkg-install",
]


def test_both_parts_run(ci):
    assert ci() == (BOTH, 0, "")


@pytest.mark.parametrize("fails", [BOTH[0], BOTH[1], BOTH[4]])
def test_what_fails_fails_it_and_is_the_last(ci, fails):
    ran, status, _ = ci(fails)

    assert status != 0
    assert ran[-1] == fails


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ({"fails": BOTH[3]}, "it could not be installed within ten minutes"),
        ({"in_time": False}, "it could not be installed within ten minutes"),
        ({"cuda": False}, "the registry has given another build"),
    ],
)
def test_without_a_cuda_build_its_part_is_left_out_and_says_so(ci, trouble, why):
    ran, status, said = ci(**trouble)

    assert status == 0
    assert said == f"{NOT_RUN}{why}\n"
    assert BOTH[1] in ran
    assert BOTH[4] not in ran
