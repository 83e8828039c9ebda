"""The ``trace`` fixture of the tests of the stand-in, for the figures that are held against it here."""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # bodies and cases that several files here share

_path = Path(__file__).parents[1] / "devices" / "traced" / "conftest.py"
_spec = importlib.util.spec_from_file_location("virtual_device_fixtures", _path)
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)

device_servers, trace_as_installed = _fixtures.device_servers, _fixtures.trace


@pytest.fixture
def trace(trace_as_installed):
    """With cuBLAS workspaces as the formulas have them: of torch 2.12 to 2.14, whatever is installed."""
    return functools.partial(trace_as_installed, workspaces_of=(2, 13))
