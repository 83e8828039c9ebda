"""Where installed libraries of NVIDIA's are found: as ld.so would look."""

from pathlib import Path

from pytest_membudget.devices.stand_in.linked import installed
from pytest_membudget.devices.stand_in.linked.installed import find_installed, folders_of


def test_a_search_path_begins_at_the_library_that_has_it_and_the_user_s_comes_behind():
    asked = ["$ORIGIN/../../nvidia/cudnn/lib", "${ORIGIN}", "/opt/lib"]

    folders = folders_of(asked, Path("/site/torch/lib"), {"LD_LIBRARY_PATH": "/first::/second"})

    assert [str(folder) for folder in folders] == [
        "/site/torch/lib/../../nvidia/cudnn/lib", "/site/torch/lib", "/opt/lib", "/first", "/second"
    ]  # fmt: skip


def test_the_first_folder_that_has_a_library_gives_it_and_else_ldconfig(tmp_path, monkeypatch):
    known = {"libcudnn.so.9": Path("/usr/lib/libcudnn.so.9")}
    monkeypatch.setattr(installed, "_ldconfig_cache", lambda: known)
    folders = [tmp_path / name for name in ("empty", "first", "second")]
    for folder in folders:
        folder.mkdir()
        if folder.name != "empty":
            (folder / "libcudnn.so.9").touch()

    found = find_installed(["libcudnn.so.9", "libnccl.so.2"], folders)

    assert found == {"libcudnn.so.9": tmp_path / "first" / "libcudnn.so.9"}
    assert find_installed(["libcudnn.so.9"], []) == known


def test_ldconfig_knows_libc():
    cached = installed._ldconfig_cache()

    assert not cached or cached["libc.so.6"].is_file()
