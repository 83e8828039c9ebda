"""The wheel's tag: what the stand-in's libraries need of glibc."""

import os
import re
import sys
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.building import built_libraries
from pytest_membudget.devices.stand_in.compiling import LIBRARY, NAMED

pytest.importorskip("hatchling")
sys.path.insert(0, str(Path(__file__).parents[1]))
from hatch_build import _platform_tag


def test_the_tag_is_of_the_newest_symbol_of_glibc_that_a_library_needs():
    """Names of versions stand in the file as text: read here without the tables of the format."""
    folder = built_libraries(os.environ)
    libraries = [folder / name for name in (LIBRARY, *NAMED)]
    named = {int(minor) for path in libraries for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())}

    assert _platform_tag(libraries, "aarch64") == f"manylinux_2_{max(17, *named)}_aarch64"


def test_what_needs_little_is_tagged_as_manylinux2014():
    assert _platform_tag([], "x86_64") == "manylinux_2_17_x86_64"
