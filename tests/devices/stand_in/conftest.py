"""The ``stand_in`` fixture: a function of the test's module, run on cards that are not there."""

import json
import os
import subprocess

import pytest

from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.torch_build.installed import workers_torch


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

    def __init__(self, start, environ):
        self._process = start(
            *("-m", "tests.devices.stand_in.server"),
            gpu="A100-80GB",
            count=1,
            unlimited=False,
            environ=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, order):
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the server of the stand-in has ended"
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def stand_in_servers(cuda_build, start_with_cards):
    """A server for each environment that torch reads when it is imported."""
    servers = {}

    def server(environ):
        key = json.dumps(environ, sort_keys=True)
        if key not in servers:
            servers[key] = Server(start_with_cards, environ)
        return servers[key]

    yield server
    for started in servers.values():
        started.close()


@pytest.fixture
def stand_in(stand_in_servers):
    """``stand_in(body, *args, gpu=..., count=..., environ=...)`` is what ``body`` returned, as JSON keeps it.

    ``environ`` is set in the child before CUDA is first used; ``imported_with`` before torch is imported.
    ``unlimited``: more than the card has can be allocated. ``not_modelled``: names that the body may leave
    in the record of what is not modelled; others fail the test.
    """

    def run(
        body,
        *args,
        gpu="A100-80GB",
        count=1,
        unlimited=False,
        environ=None,
        imported_with=None,
        not_modelled=(),
    ):
        order = {
            "path": body.__code__.co_filename,
            "name": body.__name__,
            "args": args,
            "gpu": gpu,
            "count": count,
            "unlimited": unlimited,
            "environ": environ or {},
        }
        answer = stand_in_servers(imported_with or {}).run(order)
        assert "value" in answer, answer["reason"]
        assert set(answer["not_modelled"]) <= set(not_modelled)
        return answer["value"]

    return run
