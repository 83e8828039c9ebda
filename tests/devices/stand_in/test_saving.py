"""The private parts of torch that checkpoints are written and read by."""

import importlib

import pytest

from pytest_membudget.devices.stand_in.saving import distributed_files, old_files, zip_files

PARTS = (*zip_files.PARTS, *old_files.PARTS, *distributed_files.COPIES, distributed_files.STREAMS)


@pytest.mark.parametrize(("module", "path", "purpose"), PARTS)
def test_torch_has_what_checkpoints_are_written_by(module, path, purpose):
    found = importlib.import_module(module)
    for name in path.split("."):
        assert hasattr(found, name), f"torch has no {module}.{path} any more: {purpose} need it"
        found = getattr(found, name)
