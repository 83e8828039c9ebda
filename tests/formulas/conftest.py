"""The ``trace`` fixture of the tests of the stand-in, for the figures that are held against it here."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # bodies and cases that several files here share

_path = Path(__file__).parents[1] / "devices" / "traced" / "conftest.py"
_spec = importlib.util.spec_from_file_location("traced_fixtures", _path)
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)

device_servers, trace = _fixtures.device_servers, _fixtures.trace
