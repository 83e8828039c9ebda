"""The private parts of torch that estimates rest on: named, with their purpose, where one is missing."""

import functools
import importlib
from pathlib import Path

import pytest
import torch

import pytest_membudget
from pytest_membudget.devices import torch_parts
from pytest_membudget.devices.real import compiled_calls, compiled_code, environment_settings
from pytest_membudget.devices.stand_in.ranks import torch_parts as ranks
from pytest_membudget.devices.stand_in.saving import old_files, zip_files
from pytest_membudget.errors import UnsupportedTorch
from pytest_membudget.worker.ranks import rank

TABLES = {
    "torch_parts": torch_parts,
    "ranks": ranks,
    "compiled_calls": compiled_calls,
    "environment_settings": environment_settings,
    "compiled_code": compiled_code,
    "rank": rank,
    "zip_files": zip_files,
    "old_files": old_files,
}
ROWS = [
    pytest.param(table, *row, id=f"{name}: {row[0]}.{row[1]}")
    for name, table in TABLES.items()
    for row in table.PARTS
]


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

    monkeypatch.setattr(torch_parts.importlib, "import_module", import_module)


@pytest.mark.parametrize(("table", "module", "path", "purpose"), ROWS)
def test_a_missing_part_is_named_with_its_purpose(monkeypatch, table, module, path, purpose):
    torch_parts.check_parts(table.PARTS)
    take_away(monkeypatch, module, path)

    with pytest.raises(UnsupportedTorch) as caught:
        torch_parts.check_parts(table.PARTS)

    text = str(caught.value)
    assert text.startswith(f"torch {torch.__version__} is not a torch that the stand-in was made for")
    assert f"it has no {module}.{path} ({purpose})" in text


@functools.cache
def our_lines():
    root = Path(pytest_membudget.__file__).parent
    return [line for file in root.rglob("*.py") for line in file.read_text().splitlines()]


@pytest.mark.parametrize(("table", "module", "path", "purpose"), ROWS)
def test_each_part_is_one_that_the_code_names(table, module, path, purpose):
    """A row of what nobody uses would refuse a torch for nothing."""
    name, row = path.rpartition(".")[-1], f'"{path}", "'

    naming = [line for line in our_lines() if name in line or f"import {module}" in line]

    assert [one for one in naming if row not in one and one.strip() not in (f'"{path}",', f'"{module}",')]


def test_a_module_that_is_gone_is_named_too(monkeypatch):
    original = importlib.import_module

    def import_module(name):
        if name == "torch._tensor_str":
            raise ImportError(name)
        return original(name)

    monkeypatch.setattr(torch_parts.importlib, "import_module", import_module)

    with pytest.raises(UnsupportedTorch, match=r"it has no torch\._tensor_str\._str \("):
        torch_parts.check_torch()


@pytest.mark.parametrize(("version", "release"), [("2.13.0+cpu", (2, 13)), ("2.15.0a0+git123", (2, 15))])
def test_the_release_is_major_and_minor(monkeypatch, version, release):
    monkeypatch.setattr(torch, "__version__", version)

    assert torch_parts.torch_release() == release


def test_a_torch_that_is_too_old_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.10.1")

    with pytest.raises(UnsupportedTorch, match=r"torch 2.10.1 is too old .* torch 2.11 and later"):
        torch_parts.check_torch()
