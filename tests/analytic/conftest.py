"""The ``trace`` fixture of the virtual device's tests, for the figures that are held against it here."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # bodies and cases that several files here share

_path = Path(__file__).parents[1] / "virtual" / "conftest.py"
_spec = importlib.util.spec_from_file_location("virtual_device_fixtures", _path)
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)

device_server, trace = _fixtures.device_server, _fixtures.trace
