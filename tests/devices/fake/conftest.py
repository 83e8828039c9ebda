"""The ``trace`` fixture: a function of the test's module, run on the virtual device in another process."""

import json
import os
import subprocess

import pytest

from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.memory_report import MemoryReport
from tests.warm_python import DEVICE_SERVER

#: The variable that says which device bodies run on: ``fake`` or ``stand-in``.
DEVICE = "MEMBUDGET_TESTS_DEVICE"


class Traced:
    """What a body took, and what it returned."""

    def __init__(self, answer):
        self.report = MemoryReport.from_json(answer["report"])
        self.value = answer["value"]
        self.representatives = answer["representatives"]
        self.rank_assumption = answer["rank_assumption"]
        self.broadcasts = answer["broadcasts"]
        assert sum(self.report.components.values()) == self.report.peak_bytes

    def __getattr__(self, component):
        return self.report.components[component]

    @property
    def allocated(self):
        return self.report.peak.allocated_bytes


class DeviceServers:
    """Processes with the device, each started when it is first needed."""

    def __init__(self, start):
        self._start = start
        self._device = os.environ.get(DEVICE, "fake")
        self._processes = {}

    def process_for(self, gpu, cards):
        """Of the fake device one serves all; on the stand-in a process has its cards for good."""
        key = (gpu, cards) if self._device == "stand-in" else None
        if key not in self._processes:
            self._processes[key] = self._started(gpu, cards)
        return self._processes[key]

    def _started(self, gpu, cards):
        environment = None
        if self._device == "stand-in":
            libraries = built_libraries(os.environ)
            own = {**os.environ, "TORCH_SYMBOLIZE_MODE": "fast"}
            environment = stand_in_environment(libraries, find_gpu(gpu), cards, own, unlimited=True)
        return self._start(
            "-m", DEVICE_SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def close(self):
        for process in self._processes.values():
            process.stdin.close()
            process.wait()
            process.stdout.close()


@pytest.fixture(scope="session")
def device_servers(start_python):
    servers = DeviceServers(start_python)
    yield servers
    servers.close()


@pytest.fixture
def trace(device_servers):
    """``trace(body, *args, gpu=..., limited=..., metric=...)`` runs ``body`` on the virtual device.

    With ``world_size`` as one ``rank`` of a virtual cluster, which has ``rank0_broadcasts`` what rank 0 said.
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
        rank0_broadcasts="",
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
            "rank0_broadcasts": rank0_broadcasts,
        }
        server = device_servers.process_for(gpu, min(world_size, 8))
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert "report" in answer, answer["reason"]
        return Traced(answer)

    return run
