"""Whose code is never the user's own: torch, pytest, this package, the standard library."""

from __future__ import annotations

import os
import sysconfig

import _pytest
import pluggy
import torch

from .source import SourceFinder


def users_source() -> SourceFinder:
    """Finds the user's lines in this environment."""
    package = os.path.dirname(os.path.dirname(__file__))
    folders = ("allocator", "devices", "tracking", "worker")
    own = [os.path.join(package, name) for name in folders]
    others = [os.path.dirname(str(module.__file__)) for module in (torch, _pytest, pluggy)]
    return SourceFinder([*others, *own], sysconfig.get_paths()["stdlib"])
