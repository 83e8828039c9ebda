"""What the gate says of files in ``clients/``: one session of it, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: As the user has it, before tests/conftest.py sets another: kernels that Triton has compiled are kept there.
CACHE = os.environ.get("MEMBUDGET_CACHE_DIR", "")


@pytest.fixture(scope="module")
def rows_of(tmp_path_factory):
    """``rows_of("trainer", "peft")``: report.json's rows for clients/test_trainer.py and test_peft.py."""

    def run(*names):
        folder = tmp_path_factory.mktemp("report")
        files = [f"clients/test_{name}.py" for name in names]
        options = [
            "--membudget",
            f"--membudget-report={folder}",
            "--membudget-measure=off",
            "--membudget-cache=off",
        ]
        variables = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "MEMBUDGET_CACHE_DIR": CACHE}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-W", "default", "-p", "no:cacheprovider", *options, *files],
            cwd=ROOT,
            env={**os.environ, **variables},
        )
        assert done.returncode == 0  # what it printed is above, and with -s seen while it runs
        return json.loads((folder / "report.json").read_text())["tests"]

    return run
