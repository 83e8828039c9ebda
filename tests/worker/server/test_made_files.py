"""What a test's earlier runs have made is put away while it runs again."""

import collections
import contextlib
import ctypes
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.saving.unknown_files import UNKNOWN_RECORD
from pytest_membudget.worker.server import made_files
from pytest_membudget.worker.server.made_files import MadeFiles
from tests.in_child import found_in_child


@pytest.fixture
def run(tmp_path):
    """Runs a body in a process for itself, as a worker does, with all that comes before and after."""
    root = tmp_path / "root"
    root.mkdir()
    files = collections.defaultdict(lambda: MadeFiles(str(root), besides=[str(root / "cache")]))

    def run(body, test="test", is_alone=False):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        files[test].put_away()
        child = os.fork()
        if child == 0:
            os.chdir(root)
            with files[test].recording(log):
                body()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        files[test].end(log)
        if is_alone:
            remove()
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}

    def remove():
        for made in reversed(files.values()):
            made.remove()

    run.root, run.files, run.remove = root, files, remove
    return run


def writes(name, text):
    with open(name, "w") as file:
        file.write(text)


def makes(text):
    def body():
        os.makedirs("out/in")  # raises where it is there
        writes("out/in/a", text)
        writes("b.part", text)
        os.replace("b.part", "b")
        os.symlink("b", "link")

    return body


def test_each_run_begins_as_the_first_did_and_what_that_made_stays(run):
    first = run(makes("1"))

    assert first == {"out/in/a": "1", "b": "1", "link": "1"}
    assert run.files["test"].has_any
    assert run(makes("2")) == first
    assert run(lambda: writes("a later one's", "3")) == first  # nothing of it stays
    assert run(lambda: None) == first


def overwrites():
    with open("mine", "w") as file:
        file.write("changed")


def replaces():
    writes("new", "changed")
    os.replace("new", "mine")


def removes():
    os.remove("mine")
    assert not os.path.exists("mine")
    writes("mine", "changed")


def moves():
    os.rename("mine", "other")
    writes("mine", "changed")


def removes_all_of_its_folder():
    os.remove("folder/mine")
    os.rmdir("folder")  # raises where anything else is in it
    writes("mine", "changed")


def removes_its_folder():
    shutil.rmtree("folder")
    os.mkdir("folder")  # raises where it is there
    writes("folder/mine", "changed")


def saves():
    sys.audit("open", "mine", "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)  # as the writer of torch.save does
    native = ctypes.CDLL(None).creat(b"mine", 0o600)
    os.write(native, b"changed")


BODIES = (overwrites, replaces, removes, moves, removes_all_of_its_folder, removes_its_folder, saves)


@pytest.mark.parametrize("body", BODIES)
def test_what_the_user_has_is_as_before_after_each_run(run, body):
    (run.root / "folder").mkdir()
    before = dict.fromkeys(("mine", "folder/mine"), "of weeks")
    for name in before:
        (run.root / name).write_text("of weeks")

    def checked():
        body()
        assert "changed" in [Path(name).read_text() for name in before if Path(name).exists()]

    for _ in range(2):
        assert run(checked).items() >= before.items()


def test_a_folder_of_the_users_that_gets_another_name_stays(run):
    (run.root / "old").mkdir()
    (run.root / "old" / "mine").write_text("of weeks")

    run(makes("1"))
    found = run(lambda: os.rename("old", "new"))  # no file of the first run, and not removed with this one's

    assert found["new/mine"] == "of weeks"


def test_what_was_there_and_what_other_tests_have_made_stays_where_it_is(run):
    (run.root / "mine").write_text("0")
    run(makes("1"), "other")

    run(lambda: None)

    assert not run.files["test"].has_any
    assert run(lambda: writes("seen", str(sorted(os.listdir()))))["seen"] == "['b', 'link', 'mine', 'out']"


def test_what_a_child_of_the_test_makes_is_seen_and_nothing_elsewhere(run, tmp_path):
    def forks():
        child = os.fork()
        if child == 0:
            os.mkdir("of a child")
            os._exit(0)
        os.waitpid(child, 0)
        writes(tmp_path / "elsewhere", "")
        os.mkdir("gone")
        os.rmdir("gone")

    for _ in range(2):
        run(forks)
        assert os.listdir(run.root) == ["of a child"]
    assert (tmp_path / "elsewhere").exists()


def staged():
    os.makedirs("ckpt.tmp/in")
    writes("ckpt.tmp/in/a", "1")
    os.rename("ckpt.tmp", "ckpt")
    os.symlink("ckpt", "latest")


def has_native_code_write():
    makes("1")()  # a tokenizer's save is one
    os.close(ctypes.CDLL(None).creat(b"out/in/native", 0o600))


def goes_up():
    above = f"../{Path.cwd().name}"
    os.makedirs(f"{above}/out/in")
    writes(f"{above}/out/in/./a", "1")  # as os.path.join with os.path.relpath's "." has it
    writes("out/in/b", "1")


@pytest.mark.parametrize("body", [makes("1"), staged, has_native_code_write, goes_up])
def test_nothing_stays_of_what_was_made(run, body):
    (run.root / "mine").write_text("0")

    assert run(body, is_alone=True) == {"mine": "0"}
    assert not run.files["test"].has_any
    for _ in range(2):
        assert len(run(body)) > 1
    run(lambda: writes("out/another test's", "2") if os.path.isdir("out") else None, "other")
    run.remove()
    assert os.listdir(run.root) == ["mine"]


def test_what_is_made_outside_by_way_of_the_folder_above_stays(run, tmp_path):
    (tmp_path / "others").mkdir()
    (run.root / "link").symlink_to(tmp_path / "others")

    def body():
        writes("../elsewhere", "1")
        writes("link/../behind", "1")

    run(body, is_alone=True)

    assert {"elsewhere", "behind"} <= {*os.listdir(tmp_path)}


def test_nothing_stays_of_what_two_runs_have_written_at_once(tmp_path):
    def in_a_process():
        os.chdir(tmp_path)
        logs, (first, second) = ("first", "second"), (MadeFiles(str(tmp_path)), MadeFiles(str(tmp_path)))
        with first.recording(tmp_path.parent / logs[0]):
            writes("a", "1")
        with second.recording(tmp_path.parent / logs[1]):
            writes("a", "2")
            first.end(tmp_path.parent / logs[0])
        second.end(tmp_path.parent / logs[1])
        second.remove()
        first.remove()
        return len(os.listdir())

    child = os.fork()
    if child == 0:
        os._exit(in_a_process())
    assert os.waitpid(child, 0)[1] == 0


def test_what_others_have_changed_or_added_to_stays(run):
    run(makes("1"))
    run(staged, "other")
    for name in ("b", "ckpt/in/native"):
        os.close(ctypes.CDLL(None).creat(os.fsencode(run.root / name), 0o600))

    run.remove()

    kept = {str(path.relative_to(run.root)) for path in run.root.rglob("*")}
    assert kept == {"b", "ckpt", "ckpt/in", "ckpt/in/a", "ckpt/in/native"}
    assert run.files["test"].has_any


@pytest.mark.parametrize(
    ("address", "is_network"),
    [
        (("192.0.2.1", 443), True),
        (("2001:db8::1", 443, 0, 0), True),
        (("127.0.0.1", 1), False),
        ("/tmp/a", False),
    ],
)
def test_of_a_run_that_uses_the_network_checkpoints_alone_are_removed(run, address, is_network):
    def downloads():
        sys.audit("socket.connect", None, address)
        os.makedirs("data/raw")
        writes("data/raw/images", "1")
        writes("data/raw/damaged.safetensors", "2")
        for folder in ("out", "out/checkpoint"):
            os.mkdir(folder)
            writes(f"{folder}/log", "2")
        writes("out/checkpoint/a.part", "")
        with zipfile.ZipFile("out/checkpoint/a.part", "w") as archive:
            archive.writestr(f"a/{UNKNOWN_RECORD}", "data/0")
        os.rename("out/checkpoint/a.part", "out/checkpoint/a")

    for _ in range(2):
        found = run(downloads if not (run.root / "data").exists() else makes("1"), is_alone=True)

        stays = {"data/raw/images": "1", "data/raw/damaged.safetensors": "2", "out/log": "2"}
        assert found == (stays if is_network else {})


def test_a_test_that_connects_goes_on_where_its_log_is_gone(tmp_path):
    def body():
        log = tmp_path / "scratch" / "log"
        log.parent.mkdir()
        with MadeFiles(str(tmp_path)).recording(log):
            shutil.rmtree(log.parent)
            sys.audit("socket.connect", None, ("192.0.2.1", 443))
        return {"went": "on"}

    assert found_in_child(body, timeout=60) == {"went": "on"}


def test_two_files_of_the_users_of_which_one_replaces_the_other_stay(run):
    for name in ("one", "two"):
        (run.root / name).write_text(name)

    assert run(lambda: os.replace("one", "two")) == {"one": "one", "two": "two"}


def test_a_lock_that_others_hold_for_long_keeps_nobody_waiting(tmp_path, monkeypatch):
    others, lock = made_files.FolderLock(tmp_path), made_files.FolderLock(tmp_path)
    with contextlib.closing(others), contextlib.closing(lock):
        assert others.take(alone=False)
        assert lock.take(alone=False)
        assert not lock.take(alone=True)
        monkeypatch.setattr(made_files, "_PATIENCE", 0.0)
        assert lock.take(alone=True)


def test_what_a_run_keeps_in_the_plugins_cache_stays_where_the_root_has_that(run):
    """Triton's compiled kernels: on GitLab a cache has to be below the project."""

    def body():
        os.makedirs("cache/triton", exist_ok=True)
        writes("cache/triton/kernel.part", "compiled")
        os.replace("cache/triton/kernel.part", "cache/triton/kernel")

    for _ in range(2):
        assert run(body, is_alone=True) == {"cache/triton/kernel": "compiled"}


def test_a_file_that_is_renamed_costs_no_look_at_all_others(run, monkeypatch):
    asked = []
    monkeypatch.setattr(made_files, "is_below", lambda path, folders: asked.append(path) or True)
    done = {f"{run.root}/{number}" for number in range(1000)}
    writes(run.root / "a", "")

    [*run.files["test"]._happens("os.rename", (str(run.root / "a"), str(run.root / "b"), -1, -1), done)]

    assert len(asked) < 10
