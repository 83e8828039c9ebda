"""The release of torch is read from its version, whatever builds write behind it."""

import pytest
import torch

from pytest_membudget.devices.fake.private import check_torch, torch_release
from pytest_membudget.errors import UnsupportedTorch


@pytest.mark.parametrize(
    ("version", "release"),
    [("2.13.0+cpu", (2, 13)), ("2.11.0a0+git0123abc", (2, 11)), ("2.13", (2, 13)), ("10.2.0", (10, 2))],
)
def test_a_release_is_read(monkeypatch, version, release):
    monkeypatch.setattr(torch, "__version__", version)

    assert torch_release() == release


def test_a_version_that_is_no_release_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "dev")

    with pytest.raises(
        UnsupportedTorch, match=r"'dev', which names no release; install torch 2\.11 or later"
    ):
        check_torch()


def test_a_release_before_the_oldest_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.10.1+cu128")

    with pytest.raises(UnsupportedTorch, match=r"torch 2\.10\.1\+cu128 is too old .* torch 2\.11 and later"):
        check_torch()
