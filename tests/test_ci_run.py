"""What CI runs: every part of it, and what fails fails it."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ["-m pip install --quiet tox", "-m tox", "-m tox -e tests -- -m slow tests", "-m tox -e cuda-smoke"]
#: Beside them: it installs what they would.
AHEAD = "-m tox -e lint,cuda-smoke --notest --skip-pkg-install"


@pytest.fixture
def ci(tmp_path):
    """``ci(fails)``: what ran, and the exit status, where ``fails`` does; nothing is installed."""

    def run(fails="none"):
        shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
        told, python = tmp_path / "told", tmp_path / "bin" / "python"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\necho "$*" >> {told}\n[ "$*" != "{fails}" ]\n')
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        path = f"{python.parent}:{os.environ['PATH']}"
        done = subprocess.run([tmp_path / ".ci" / "run"], env={**os.environ, "PATH": path}, check=False)
        ran = told.read_text().splitlines()
        return [line for line in ran if line != AHEAD], done.returncode, AHEAD in ran

    return run


@pytest.mark.parametrize("fails", ["none", AHEAD])
def test_all_parts_run_whether_or_not_their_environments_are_there(ci, fails):
    assert ci(fails) == (PARTS, 0, True)


@pytest.mark.parametrize("fails", PARTS)
def test_what_fails_fails_it_and_is_the_last(ci, fails):
    ran, status, _ = ci(fails)

    assert status != 0
    assert ran[-1] == fails
