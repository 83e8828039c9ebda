"""Reading what shared objects need and define: as readelf shows it."""

import ctypes.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.linked.elf_reader import (
    NeededSymbol,
    NotSharedObject,
    defined_functions,
    needed_symbols,
    read_shared_object,
)

needs_readelf = pytest.mark.skipif(not shutil.which("readelf"), reason="readelf (binutils) is not installed")


def loaded_library(beginning):
    """The file of a library that this process has mapped."""
    mapped = re.findall(r"/\S+", Path("/proc/self/maps").read_text())
    return next(Path(path) for path in mapped if Path(path).name.startswith(beginning))


def extension():
    """A shared object that needs symbols with versions: a module of Python's own."""
    import _ctypes

    return Path(_ctypes.__file__)


def readelf(*arguments):
    done = subprocess.run(["readelf", "-W", *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def shown_symbols(path):
    """``(name, type, is undefined, binding)`` of each dynamic symbol; a version follows ``@``."""
    line = re.compile(r"^ +\d+: [0-9a-f]+ +\w+ (\w+) +(\w+) +\w+ +(\w+) (\S+)", re.MULTILINE)
    return [
        (name, kind, where == "UND", binding)
        for kind, binding, where, name in line.findall(readelf("--dyn-syms", path))
    ]


@needs_readelf
def test_what_is_needed_is_what_readelf_shows():
    path = extension()
    found = read_shared_object(path)

    assert list(found.needed) == re.findall(r"NEEDED.*\[(.*)\]", readelf("-d", path))
    shown = readelf("-V", path).split("Version needs")[1]
    assert set(found.needed_versions) == set(re.findall(r"File: (\S+)", shown))
    versions = [version for asked in found.needed_versions.values() for version in asked]
    assert sorted(versions) == sorted(re.findall(r"Name: (\S+) ", shown))
    symbols = {f"{one.name}@{one.version}" if one.version else one.name for one in needed_symbols(path)}
    assert symbols == {
        name for name, _, is_undefined, binding in shown_symbols(path) if is_undefined and binding == "GLOBAL"
    }


def test_a_needed_symbol_names_the_library_that_has_its_version():
    symbols = {symbol.name: symbol for symbol in needed_symbols(extension())}

    assert symbols["memcpy"].library == "libc.so.6"
    assert symbols["PyErr_Format"] == NeededSymbol("PyErr_Format")


@needs_readelf
@pytest.mark.parametrize("beginning", ["libc.so", "libm.so"])
def test_functions_are_those_that_readelf_shows_and_data_is_none(beginning):
    if beginning == "libm.so":
        ctypes.CDLL(ctypes.util.find_library("m"))
    path = loaded_library(beginning)

    found = defined_functions(path)

    functions, data = (
        {
            name.split("@")[0]
            for name, kind, undefined, _ in shown_symbols(path)
            if kind in of and not undefined
        }
        for of in (("FUNC", "IFUNC"), ("OBJECT",))
    )
    assert found == functions
    assert data
    assert not found & data


def test_a_library_s_own_name_and_search_path_are_read(torch_folder):
    found = read_shared_object(torch_folder / "lib" / "libtorch_cuda.so")

    assert found.soname == "libtorch_cuda.so"
    assert any("$ORIGIN" in path for path in found.search_path)
    assert any(soname.startswith("libcudart.so.") for soname in found.needed)


CUT_IN_ITS_HEADER, OF_32_BITS = b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x01\x01" + bytes(60)


@pytest.mark.parametrize(
    "content", [b"", b"text", OF_32_BITS, CUT_IN_ITS_HEADER, extension().read_bytes()[:2000]], ids=range(5)
)
def test_what_is_no_shared_object_is_refused_by_its_path(tmp_path, content):
    path = tmp_path / "libother.so"
    path.write_bytes(content)

    # of one that is cut short later the header can be read
    for read in (needed_symbols, defined_functions, *([read_shared_object] if len(content) < 2000 else [])):
        with pytest.raises(NotSharedObject, match=re.escape(f"{path} is no shared object")):
            read(path)


def test_a_missing_file_is_the_system_s_error_and_an_executable_is_read_as_well(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_shared_object(tmp_path / "libnone.so")
    assert read_shared_object(Path(sys.executable).resolve()).needed
