"""The private parts of torch that the virtual cluster stands on: named, with their purpose, if gone."""

import importlib

import pytest

from pytest_membudget.devices.fake import private
from pytest_membudget.devices.fake.cluster.private import PRIVATE_PARTS
from pytest_membudget.errors import UnsupportedTorch


@pytest.mark.parametrize(
    ("module", "path", "purpose"), PRIVATE_PARTS, ids=[f"{row[0]}.{row[1]}" for row in PRIVATE_PARTS]
)
def test_a_missing_part_is_named_with_its_purpose(monkeypatch, module, path, purpose):
    private.check_parts(PRIVATE_PARTS)
    parent, owner = None, importlib.import_module(module)
    *above, last = path.split(".")
    for name in above:
        parent, owner = owner, getattr(owner, name)
    if parent is None or isinstance(owner, type):
        monkeypatch.delattr(owner, last)
    else:
        monkeypatch.setattr(parent, above[-1], object())

    with pytest.raises(UnsupportedTorch) as caught:
        private.check_parts(PRIVATE_PARTS)

    assert f"it has no {module}.{path} ({purpose})" in str(caught.value)
