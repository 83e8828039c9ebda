"""Who has called: the user's code, a library, pytest, or the import of a library."""

from __future__ import annotations

import sys
from types import FrameType

import _pytest
import pluggy

from .reach import installed_folders, is_below
