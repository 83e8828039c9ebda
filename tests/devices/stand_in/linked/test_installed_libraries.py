"""Where installed libraries of NVIDIA's are found: as ld.so would look."""

from pathlib import Path

from pytest_membudget.devices.stand_in.linked import installed
from pytest_membudget.devices.stand_in.linked.installed import find_installed, folders_of


def test_a_search_path_begins_at_the_library_that_has_it():
    folders = folders_of(
        ["$ORIGIN/../../nvidia/cudnn/lib", "${ORIGIN}", "/opt/lib"], Path("/site/torch/lib"), {}
    )

    assert folders == (
        Path("/site/torch/lib/../../nvidia/cudnn/lib"),
        Path("/site/torch/lib"),
        Path("/opt/lib"),
    )


def test_the_user_s_library_path_comes_behind_it():
    folders = folders_of(["/own"], Path("/site"), {"LD_LIBRARY_PATH": "/first::/second"})

    assert folders == (Path("/own"), Path("/first"), Path("/second"))


def test_the_first_folder_that_has_a_library_gives_it(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "_ldconfig_cache", dict)
    for name in ("empty", "first", "second"):
        (tmp_path / name).mkdir()
    for name in ("first", "second"):
        (tmp_path / name / "libcudnn.so.9").touch()

    found = find_installed(
        ["libcudnn.so.9", "libnccl.so.2"], [tmp_path / name for name in ("empty", "first", "second")]
    )

    assert found == {"libcudnn.so.9": tmp_path / "first" / "libcudnn.so.9"}


def test_what_no_folder_has_is_found_where_ldconfig_knows_it(monkeypatch):
    monkeypatch.setattr(
        installed, "_ldconfig_cache", lambda: {"libcudnn.so.9": Path("/usr/lib/libcudnn.so.9")}
    )

    assert find_installed(["libcudnn.so.9"], []) == {"libcudnn.so.9": Path("/usr/lib/libcudnn.so.9")}


def test_ldconfig_knows_libc():
    cached = installed._ldconfig_cache()

    assert not cached or cached["libc.so.6"].is_file()
