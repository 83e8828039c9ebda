"""The ``trace`` fixture: a function of the test's module, run on the virtual device in another process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_membudget.report import MemoryReport


class Traced:
    """What a body took, and what it returned."""

    def __init__(self, answer):
        self.report = MemoryReport.from_json(answer["report"])
        self.value = answer["value"]
        self.representatives = answer["representatives"]
        self.rank_assumption = answer["rank_assumption"]
        self.said = answer["said"]
        assert sum(self.report.components.values()) == self.report.peak_bytes

    def __getattr__(self, component):
        return self.report.components[component]

    @property
    def allocated(self):
        return self.report.peak.allocated_bytes


@pytest.fixture(scope="session")
def device_server():
    server = Path(__file__).with_name("device_server.py")
    process = subprocess.Popen(
        [sys.executable, str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture
def trace(device_server):
    """``trace(body, *args, gpu=..., limited=..., metric=...)`` runs ``body`` on the virtual device.

    With ``world_size`` as one ``rank`` of a virtual cluster, which has ``heard`` what rank 0 said.
    ``workspaces_of``: a release of torch whose cuBLAS workspaces are taken in place of the installed one's.
    """

    def run(
        body,
        *args,
        gpu="A100-80GB",
        limited=False,
        metric="allocated",
        environ=None,
        rank=0,
        world_size=1,
        workspaces_of=None,
        heard="",
    ):
        order = {
            "path": body.__code__.co_filename,
            "name": body.__name__,
            "args": args,
            "gpu": gpu,
            "limited": limited,
            "metric": metric,
            "environ": environ or {},
            "rank": rank,
            "world_size": world_size,
            "workspaces_of": workspaces_of,
            "heard": heard,
        }
        device_server.stdin.write(json.dumps(order) + "\n")
        device_server.stdin.flush()
        answer = json.loads(device_server.stdout.readline())
        assert "report" in answer, answer["reason"]
        return Traced(answer)

    return run
