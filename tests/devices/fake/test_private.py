"""The private parts of torch that the device stands on: named, with their purpose, where one is missing."""

import importlib

import pytest
import torch

from pytest_membudget.devices.fake import private
from pytest_membudget.errors import UnsupportedTorch


class Without:
    """A module or class that lacks one attribute, given by its path."""

    def __init__(self, original, path):
        self._original = original
        self._first, _, self._rest = path.partition(".")

    def __getattr__(self, name):
        found = getattr(self._original, name)
        if name != self._first:
            return found
        if not self._rest:
            raise AttributeError(name)
        return Without(found, self._rest)


def take_away(monkeypatch, module, path):
    original = importlib.import_module

    def import_module(name):
        found = original(name)
        return Without(found, path) if name == module else found

    monkeypatch.setattr(private.importlib, "import_module", import_module)


@pytest.mark.parametrize(
    ("module", "path", "purpose"),
    private.PRIVATE_PARTS,
    ids=[f"{row[0]}.{row[1]}" for row in private.PRIVATE_PARTS],
)
def test_a_missing_part_is_named_with_its_purpose(monkeypatch, module, path, purpose):
    private.check_torch()
    take_away(monkeypatch, module, path)

    with pytest.raises(UnsupportedTorch) as caught:
        private.check_torch()

    text = str(caught.value)
    assert text.startswith(f"torch {torch.__version__} is not a torch that the virtual device was made for")
    assert f"it has no {module}.{path} ({purpose})" in text


def test_a_module_that_is_gone_is_named_too(monkeypatch):
    original = importlib.import_module

    def import_module(name):
        if name == "torch.optim.optimizer":
            raise ImportError(name)
        return original(name)

    monkeypatch.setattr(private.importlib, "import_module", import_module)

    with pytest.raises(UnsupportedTorch, match=r"torch\.optim\.optimizer\._foreach_supported_types"):
        private.check_torch()


@pytest.mark.parametrize(("version", "release"), [("2.13.0+cpu", (2, 13)), ("2.15.0a0+git123", (2, 15))])
def test_the_release_is_major_and_minor(monkeypatch, version, release):
    monkeypatch.setattr(torch, "__version__", version)

    assert private.torch_release() == release


def test_a_torch_that_is_too_old_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.10.1")

    with pytest.raises(UnsupportedTorch, match=r"torch 2.10.1 is too old .* torch 2.11 and later"):
        private.check_torch()
