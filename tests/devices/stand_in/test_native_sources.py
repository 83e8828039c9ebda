"""The C sources: each is understood without those that use it."""

import ctypes
import os
import re
import shutil
import subprocess

import pytest

from pytest_membudget.devices.stand_in import compiling

pytestmark = pytest.mark.slow

needs_nm = pytest.mark.skipif(not shutil.which("nm"), reason="binutils are not installed")


def used_files(folder):
    """By the name of each source: those that define what it calls or reads."""
    sources = sorted(compiling.SOURCES.glob("*.c"))
    compiler = compiling.find_compiler(os.environ)
    flags = [*compiling.FLAGS, "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, "-c", *sources], cwd=folder, check=True)
    defines, asks = {}, {}
    for path in sources:
        objects = folder / f"{path.stem}.o"
        listed = subprocess.run(["nm", "-g", objects], capture_output=True, text=True, check=True).stdout
        for kind, name in (line.split()[-2:] for line in listed.splitlines()):
            if kind == "U":
                asks.setdefault(path.stem, set()).add(name)
            elif not hasattr(ctypes.CDLL(None), name):  # free() is the C library's for all that use it
                defines[name] = path.stem
    return {stem: {defines[name] for name in names if name in defines} for stem, names in asks.items()}


@needs_nm
def test_no_file_uses_one_that_uses_it_and_none_has_a_warning(tmp_path):
    left = used_files(tmp_path)
    assert {"contexts", "captures", "errors"} <= left["streams"]

    while leaves := [stem for stem, uses in left.items() if not uses & left.keys()]:
        for stem in leaves:
            del left[stem]

    assert left == {}, "these files use each other in a circle, or what is in one"


def test_one_file_alone_refuses():
    """Who returns such a status by another way would not note it, and a test that catches it would pass."""
    says_not_supported = re.compile(r"\b\w*(NOT_SUPPORTED|INTERNAL_ERROR)\b")

    found = {
        path.name: says_not_supported.findall(
            re.sub(r'"[^"]*"|/\*.*?\*/', "", path.read_text(), flags=re.DOTALL)
        )
        for path in compiling.SOURCES.glob("*.[ch]")
    }

    assert {name for name, statuses in found.items() if statuses} == {"refuse.c", "nvml.c"}
    assert found["nvml.c"] == ["NOT_SUPPORTED"] * 2, "the state of a link is an answer"
