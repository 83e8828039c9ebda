"""Building the stand-in's libraries: once, into a cache, or a reason why not."""

import os
import platform
import shutil
import stat
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in import building
from pytest_membudget.devices.stand_in.building import CannotBuild, built_libraries
from tests.programs import printed

pytestmark = pytest.mark.slow

NOWHERE = Path("/nonexistent")
LIBRARIES = {"libmembudget_stand_in.so", "libcuda.so.1", "libnvidia-ml.so.1"}

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")), reason="no C compiler"
)


@pytest.fixture
def environment(tmp_path):
    """The cache and the temporary folder are the test's own."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "MEMBUDGET_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(temporary),
    }


@pytest.fixture
def quick_compiler(tmp_path):
    """A compiler that writes a small file at once, and counts how often it was asked to."""
    path = tmp_path / "quick-cc"
    path.write_text(
        textwrap.dedent(f"""\
            #!{sys.executable} -IS
            import sys
            if "--version" in sys.argv:
                print("quick 1.0")
                sys.exit()
            open({str(tmp_path / "calls")!r}, "a").write("x")
            open(sys.argv[sys.argv.index("-o") + 1], "w").write("library")
            """),
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def calls(folder):
    return len((folder / "calls").read_text()) if (folder / "calls").exists() else 0


def failing_compiler(folder, message):
    path = folder / "failing-cc"
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho '{message}' >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


@needs_compiler
def test_the_libraries_are_built_once(environment):
    said = []

    first = built_libraries(environment, say=said.append, prebuilt=NOWHERE)
    second = built_libraries(environment, say=said.append, prebuilt=NOWHERE)

    assert first == second
    assert first.parent == Path(environment["MEMBUDGET_CACHE_DIR"]) / "stand-in"
    assert {path.name for path in first.iterdir()} == LIBRARIES
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    assert len(said) == 1
    assert said[0].startswith("building the stand-in for CUDA with ")


@needs_compiler
def test_opening_the_drivers_library_finds_its_functions(stand_in_libraries):
    code = (
        "from ctypes import CDLL; print(CDLL('libcuda.so.1').cuInit(0), CDLL('libnvidia-ml.so.1').nvmlInit())"
    )
    preloaded = " ".join(str(stand_in_libraries / name) for name in sorted(LIBRARIES))

    # CUDA_ERROR_NO_DEVICE: the environment names no cards
    assert printed("-c", code, env={**os.environ, "LD_PRELOAD": preloaded}).split() == ["100", "0"]


def test_processes_that_build_at_once_get_the_same(environment, quick_compiler, tmp_path):
    environment["CC"] = str(quick_compiler)

    with ThreadPoolExecutor(8) as pool:
        found = {pool.submit(built_libraries, environment, prebuilt=NOWHERE) for _ in range(8)}
        folders = {future.result() for future in found}

    assert len(folders) == 1
    assert {path.name for path in folders.pop().iterdir()} == LIBRARIES
    assert list((tmp_path / "cache" / "stand-in").glob(".*")) == []


def test_another_compiler_or_source_builds_again(environment, quick_compiler, tmp_path, monkeypatch):
    environment["CC"] = str(quick_compiler)
    first = built_libraries(environment, prebuilt=NOWHERE)
    assert calls(tmp_path) == 3  # one for each library

    (first / "libcuda.so.1").unlink()  # what was cut short is built again
    assert built_libraries(environment, prebuilt=NOWHERE) == first
    assert {path.name for path in first.iterdir()} == LIBRARIES
    assert calls(tmp_path) == 6

    quick_compiler.write_text(quick_compiler.read_text().replace("quick 1.0", "quick 1.1"))
    second = built_libraries(environment, prebuilt=NOWHERE)
    assert calls(tmp_path) == 9

    other = tmp_path / "native"
    shutil.copytree(building.SOURCES, other)
    (other / "stand_in.h").write_text("/* changed */")
    monkeypatch.setattr(building, "SOURCES", other)
    third = built_libraries(environment, prebuilt=NOWHERE)
    assert calls(tmp_path) == 12
    assert len({first, second, third}) == 3


def test_a_home_that_cannot_be_written_is_left_for_a_temporary_folder(environment, quick_compiler, tmp_path):
    (tmp_path / "cache").write_text("a file, where a folder cannot be made")
    environment["CC"] = str(quick_compiler)

    built = built_libraries(environment, prebuilt=NOWHERE)

    own = tmp_path / "temporary" / f"pytest-membudget-{os.getuid()}"
    assert built.parent == own
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_a_temporary_folder_of_somebody_else_is_not_trusted(environment, quick_compiler, tmp_path):
    (tmp_path / "cache").write_text("a file")
    own = tmp_path / "temporary" / f"pytest-membudget-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    environment["CC"] = str(quick_compiler)

    with pytest.raises(CannotBuild, match=r"others can write there.*set MEMBUDGET_CACHE_DIR"):
        built_libraries(environment, prebuilt=NOWHERE)


@pytest.mark.parametrize("sign", " :;$")
def test_a_folder_that_ld_preload_cannot_name_is_left_out(environment, quick_compiler, tmp_path, sign):
    environment["MEMBUDGET_CACHE_DIR"] = str(tmp_path / f"my{sign}cache")
    environment["CC"] = str(quick_compiler)

    assert (tmp_path / "temporary") in built_libraries(environment, prebuilt=NOWHERE).parents


def test_no_room_left_says_where(environment, tmp_path):
    environment["CC"] = failing_compiler(tmp_path, "ld: final link failed: No space left on device")

    with pytest.raises(CannotBuild) as raised:
        built_libraries(environment, prebuilt=NOWHERE)

    assert f"{tmp_path / 'cache' / 'stand-in'}: No space left on device" in str(raised.value)
    assert str(tmp_path / "temporary") in str(raised.value)
    assert list((tmp_path / "cache" / "stand-in").iterdir()) == []


@needs_compiler
def test_paths_that_ld_preload_cannot_name_are_refused_by_name(environment, tmp_path):
    (tmp_path / "with space").mkdir()
    environment |= {"MEMBUDGET_CACHE_DIR": str(tmp_path / "a:b"), "TMPDIR": str(tmp_path / "with space")}

    with pytest.raises(CannotBuild) as raised:
        built_libraries(environment, prebuilt=NOWHERE)

    assert f"LD_PRELOAD cannot name {tmp_path}/a:b/stand-in" in str(raised.value)
    assert f"LD_PRELOAD cannot name {tmp_path}/with space/" in str(raised.value)
    assert "with 2 MiB of room, and no space, colon, semicolon or $ in it" in str(raised.value)


@pytest.mark.parametrize(
    ("variables", "system", "machine", "reason"),
    [
        ({"PATH": "/nonexistent"}, "linux", "x86_64", "there is no C compiler: install gcc or clang"),
        ({}, "darwin", "x86_64", "the stand-in for CUDA needs Linux"),
        ({}, "linux", "riscv64", "needs x86-64 or aarch64, not riscv64"),
        (
            {"CC": "stdlib.h: No such file or directory"},
            "linux",
            "x86_64",
            r"failing-cc cannot build the stand-in: stdlib\.h: No such file",
        ),
    ],
)
def test_where_nothing_can_be_built_the_reason_is_said(
    environment, tmp_path, monkeypatch, variables, system, machine, reason
):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    environment |= variables
    if "CC" in variables:
        environment["CC"] = failing_compiler(tmp_path, variables["CC"])

    with pytest.raises(CannotBuild, match=reason):
        built_libraries(environment, prebuilt=NOWHERE)


@needs_compiler
def test_a_wheels_libraries_need_no_compiler(environment, stand_in_libraries, tmp_path):
    wheels = tmp_path / "built"
    shutil.copytree(stand_in_libraries, wheels)
    environment["PATH"] = "/nonexistent"

    assert built_libraries(environment, prebuilt=wheels) == wheels


def test_a_wheels_libraries_that_do_not_load_are_built_here(environment, quick_compiler, tmp_path):
    wheels = tmp_path / "built"
    wheels.mkdir()
    for name in LIBRARIES:
        (wheels / name).write_text("for another system")
    environment["CC"] = str(quick_compiler)

    assert built_libraries(environment, prebuilt=wheels) != wheels
