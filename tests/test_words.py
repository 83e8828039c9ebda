"""Prose of the source and the docs uses plain words: PyTorch's, pytest's, and those of technical English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Each with what to write instead.
AVOIDED = {
    r"t(?:old|ells?|elling)": "report, pass, assume, distinguish",
    r"stands?(?! -?in\b)": "is, is listed, represents; a stand-in is the device's name",
    r"beside": "next to, in addition to",
    r"reckon\w*": "compute",
    r"alike": "identical, equal, the same",
    r"hears?|heard": "receive, get",
    r"bur(?:y|ied)|jail\w*|piles?": "release, child process, sum",
    r"of its own|of their own|of ours": "its, their, our",
    r"without a word": "without reporting",
}
FOLDERS = ("src", "docs", "examples")
SUFFIXES = {".py", ".md", ".c", ".h", ".yaml", ".json"}
