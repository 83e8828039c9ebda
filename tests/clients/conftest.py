"""What the gate says of files in ``clients/``: one session of it, in a process of its own."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report_fixtures import caveat_texts

ROOT = Path(__file__).parents[2]
#: As the user has it, before tests/conftest.py sets another: kernels that Triton has compiled are kept there.
CACHE = os.environ.get("MEMBUDGET_CACHE_DIR", "")


class Figures:
    """Of a test's worst rank: the components by name, and the host's."""

    def __init__(self, row):
        assert row["verdict"] == "within", row["reason"]
        self.ranks = [one["rank"] for one in row["estimates"]]
        self.estimate = max(row["estimates"], key=lambda one: one["peak"]["allocated"])
        self.host = (self.estimate["host"] or {"components": {}})["components"]
        self.allocated = self.estimate["peak"]["allocated"]
        self.assumptions = caveat_texts(self.estimate)
        self.not_modelled = caveat_texts(self.estimate, missing=True)

    def __getattr__(self, component):
        return self.estimate["components"][component]


@pytest.fixture(scope="module")
def rows_of(request, tmp_path_factory):
    """``rows_of("trainer", "peft")``: report.json's rows for clients/test_trainer.py and test_peft.py.

    The module's ``NEEDED``: libraries without which its tests are skipped (``tox -e clients-...`` has them).
    """
    absent = [name for name in request.module.NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")

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
