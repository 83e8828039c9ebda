"""The fixtures ``trace`` and ``stand_in``: functions of a test's module, run on cards that are not there."""

import json
import os
import subprocess

import pytest

from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.memory_report import MemoryReport


@pytest.fixture(scope="session")
def stand_in_libraries():
    """The built libraries."""
    return built_libraries(os.environ)


@pytest.fixture(scope="session")
def cuda_build(stand_in_libraries):
    """The libraries, for a torch that calls them."""
    workers_torch(os.environ)
    return stand_in_libraries


class Server:
    """A process that has imported torch once; every function runs in a child of it."""

    def __init__(self, start, kind, environ):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = ("-m", "tests.devices.server", kind)
        self._process = start(*command, gpu="A100-80GB", count=8, unlimited=True, environ=environ, **pipes)

    def run(self, body, args, **order):
        order |= {"path": body.__code__.co_filename, "name": body.__name__, "args": args}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the server of the stand-in has ended"
        answer = json.loads(line)
        assert "value" in answer, answer["reason"]
        return answer

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def stand_in_servers(cuda_build, start_with_cards):
    """A server with the device or without, for each environment that torch reads when it is imported."""
    servers = {}

    def server(kind, environ):
        key = kind, json.dumps(environ, sort_keys=True)
        if key not in servers:
            servers[key] = Server(start_with_cards, kind, environ)
        return servers[key]

    yield server
    for started in servers.values():
        started.close()


@pytest.fixture
def stand_in(stand_in_servers):
    """``stand_in(body, *args, gpu=..., count=..., environ=...)`` is what ``body`` returned, as JSON keeps it.

    Without the device: nothing is followed. ``environ`` is set in the child before CUDA is first used;
    ``imported_with`` before torch is imported. ``unlimited``: more than the card has can be allocated.
    ``not_modelled``: names that the body may leave in the record of what is not modelled; others fail it.
    """

    def run(body, *args, gpu="A100-80GB", count=1, unlimited=False, environ=None, imported_with=None, not_modelled=()):  # fmt: skip # noqa: E501
        order = {"gpu": gpu, "count": count, "unlimited": unlimited, "environ": environ or {}}
        answer = stand_in_servers("plain", imported_with or {}).run(body, args, **order)
        assert set(answer["not_modelled"]) <= set(not_modelled)
        return answer["value"]

    return run


class Traced:
    """What a body took, and what it returned."""

    def __init__(self, answer):
        self.report = MemoryReport.from_json(answer["report"])
        self.value = answer["value"]
        self.representatives = answer["representatives"]
        self.tried = answer["tried"]
        self.rank_assumption = answer["rank_assumption"]
        self.broadcasts = answer["broadcasts"]
        self.taken = answer["taken"]
        self.allocations = answer["allocations"]
        #: why further runs may give other figures
        self.unknown = answer["unknown"]
        self.assumptions = self.report.assumptions
        #: what was asked for at the peak, before it was rounded to blocks
        self.requested = self.report.peak_bytes - self.report.components["rounding"]
        assert sum(self.report.components.values()) == self.report.peak_bytes

    def __getattr__(self, component):
        return self.report.components[component]

    @property
    def allocated(self):
        return self.report.peak["allocated"]

    def has(self, **components):
        """Whether the components are these, in bytes; if not, the difference is shown."""
        assert {name: self.report.components[name] for name in components} == components
        return True


@pytest.fixture
def trace(stand_in_servers):
    """``trace(body, *args, gpu=..., limited=..., metric=...)`` runs ``body`` on the device, as in a worker.

    With ``world_size`` as one ``rank`` of as many, which is ``received`` what others said, as JSON by rank.
    ``has_end``: the device is told when the body has ended.
    """

    def run(
        body, *args, gpu="A100-80GB", limited=False, metric="allocated", environ=None, imported_with=None,
        rank=0, world_size=1, received="", figures_only=False, has_end=False,
    ):  # fmt: skip
        ranks = {"rank": rank, "world_size": world_size, "received": received}
        order = {"gpu": gpu, "count": min(world_size, 8), "unlimited": not limited, "environ": environ or {}}
        server = stand_in_servers("device", imported_with or {})
        order |= {"metric": metric, "figures_only": figures_only, "has_end": has_end}
        return Traced(server.run(body, args, ranks=ranks, **order))

    return run
