"""Expandable segments of PyTorch's allocator, which reads its settings when its process starts."""

from __future__ import annotations

import os

import pytest

from ....allocator.settings import VARIABLES
from .contract import Note


def use_expandable_segments(item: pytest.Item, note: Note) -> None:
    """Name the setting: the client has started this process with it."""
    for name in VARIABLES:
        if name in os.environ:
            note(f"{name}={os.environ[name]}")
