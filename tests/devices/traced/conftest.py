"""The ``trace`` fixture: a function of the test's module, run on a card that is not there."""

import json
import subprocess

import pytest

from pytest_membudget.memory_report import MemoryReport


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
        self._processes = {}

    def process_for(self, gpu, cards):
        """A process has its cards for good."""
        key = (gpu, cards)
        if key not in self._processes:
            self._processes[key] = self._started(gpu, cards)
        return self._processes[key]

    def _started(self, gpu, cards):
        return self._start(
            *("-m", "tests.devices.traced.device_server"),
            gpu=gpu,
            count=cards,
            unlimited=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self):
        for process in self._processes.values():
            process.stdin.close()
            process.wait()
            process.stdout.close()


@pytest.fixture(scope="session")
def device_servers(start_with_cards):
    servers = DeviceServers(start_with_cards)
    yield servers
    servers.close()


@pytest.fixture
def trace(device_servers):
    """``trace(body, *args, gpu=..., limited=..., metric=...)`` runs ``body`` on the stand-in.

    With ``world_size`` as one ``rank`` of as many, which has ``rank0_broadcasts`` what rank 0 said.
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
            "rank0_broadcasts": rank0_broadcasts,
        }
        server = device_servers.process_for(gpu, min(world_size, 8))
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert "report" in answer, answer["reason"]
        return Traced(answer)

    return run
