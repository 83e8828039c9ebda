"""The private parts of torch that the virtual cluster stands on are there."""

import importlib

import pytest

from pytest_membudget.virtual.cluster.private import PRIVATE_PARTS


@pytest.mark.parametrize(
    ("module", "path", "purpose"), PRIVATE_PARTS, ids=[f"{row[0]}.{row[1]}" for row in PRIVATE_PARTS]
)
def test_a_part_is_there(module, path, purpose):
    found = importlib.import_module(module)
    for name in path.split("."):
        assert hasattr(found, name), f"torch has no {module}.{path} any more: {purpose}"
        found = getattr(found, name)
