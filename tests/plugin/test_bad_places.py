"""Folders, file systems and terminals that are not as one would wish: every budget is checked and told."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from pytest_membudget.devices.stand_in.compiling import find_compiler

MIB = 2**20
SNAPSHOTS = {"pyproject.toml": "[tool.membudget]\nsnapshots = 'all'\n"}
BUDGETS = """
    import pytest
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_within():
        kept = hold(0.5)

    @pytest.mark.mem_budget(gib=1)
    @pytest.mark.parametrize("name", ["größe ☃"])
    def test_over(name):
        kept = hold(2)
    """
#: It has memory of its own where there is a device when it is imported.
CONFTEST = """
    import sys

    torch = sys.modules.get("torch")  # which a worker has imported before
    if torch is not None and torch.cuda.is_available():
        OF_THE_CONFTEST = torch.empty(2**22, dtype=torch.uint8, device="cuda")
    """
#: A locale without UTF-8.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
#: An ASCII terminal of 20 columns, no asserts but those of tests, and no git.
NARROW = {
    **ASCII,
    "PYTHONUTF8": "1",
    "PYTHONIOENCODING": "ascii",
    "COLUMNS": "20",
    "PYTHONOPTIMIZE": "1",
    "PATH": "/nowhere",
}


def run(command, folder, **variables):
    ours = ("PYTEST_", "COV_", "TOX_")
    outer = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        command,
        cwd=folder,
        env={**outer, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "1000", **variables},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=180,
        check=False,
    )


def pytest_command(*args):
    return [sys.executable, "-m", "pytest", "--membudget", *args]


@pytest.fixture(scope="module")
def odd(tmp_path_factory, write_all, cache_in):
    """A session in a folder with an odd name, by a link to it, with a conftest that uses CUDA."""
    folder = tmp_path_factory.mktemp("odd")
    files = {"test_it.py": BUDGETS, "conftest.py": CONFTEST, **SNAPSHOTS}
    write_all(folder / "päth with späces ☃ 'q\" $x", files)
    link = folder / "link"
    link.symlink_to(folder / "päth with späces ☃ 'q\" $x")
    command = ["sh", "-c", 'exec "$@" <&-', "closes-its-input"]
    done = run(
        [
            shutil.which(command[0]),
            *command[1:],
            *pytest_command("--membudget-report=räp ort"),
        ],
        link,
        **NARROW,
        **cache_in(folder / "kept"),
        CC=shlex.join(find_compiler(os.environ)),  # by its path: what it has built is there
    )
    return link, done


def test_odd_folders_locales_and_terminals_change_no_figure(odd):
    folder, done = odd
    report = json.loads((folder / "räp ort" / "report.json").read_text(encoding="utf-8"))

    assert done.returncode == 1, done.stdout + done.stderr
    peaks = [row["estimates"][0]["peak"]["allocated"] for row in report["tests"]]
    assert peaks == [516 * MIB, 2052 * MIB]
    assert [row["verdict"] for row in report["tests"]] == ["within", "over"]
    assert all(row["location"].startswith("test_it.py:") for row in report["tests"])
    assert report["git"] == {"commit": None, "dirty": None, "files": {}}
    assert all((folder / "räp ort" / row["snapshot"]).is_file() for row in report["tests"])


def test_what_a_terminal_cannot_write_is_escaped(odd):
    _, done = odd

    assert done.stdout.isascii()
    assert "1.00 GiB over its budget of 1 GiB" in done.stdout
    assert "1 estimated" not in done.stdout
    assert "2 estimated (1 within, 1 over)" in done.stdout


def test_a_folder_that_the_locale_cannot_write_is_refused_with_what_to_set(tmp_path, write_all):
    folder = tmp_path / "päth"
    write_all(folder, {"test_it.py": BUDGETS})
    done = run(pytest_command(), folder, **ASCII)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "rename it, or set PYTHONUTF8=1" in done.stderr


def read_only(folder, cache):
    """What runs a command where ``folder`` and ``cache`` cannot be written; None if that cannot be had."""
    if os.geteuid() != 0:
        for path in (folder, cache):
            path.chmod(0o555)
        return []
    script = (
        'for d in "$1" "$2"; do mount --bind "$d" "$d" && mount -o remount,bind,ro "$d" || exit 99; done; '
    )
    wrapper = [
        "unshare",
        "-m",
        "sh",
        "-c",
        script + 'cd "$1"; shift 2; exec "$@"',
        "sh",
        str(folder),
        str(cache),
    ]
    try:
        allowed = run([*wrapper, "true"], folder).returncode == 0
    except FileNotFoundError:
        allowed = False
    return wrapper if allowed else None


@pytest.mark.usefixtures("warm_processes")
def test_a_project_and_a_cache_that_cannot_be_written_cost_the_cache_alone(tmp_path, write_all, cache_in):
    folder, cache = tmp_path / "project", tmp_path / "kept"
    write_all(folder, {"test_it.py": BUDGETS})
    kept = cache_in(cache)
    wrapper = read_only(folder, cache)
    if wrapper is None:
        pytest.skip("root may mount nothing here, and may write everywhere")
    try:
        done = run([*wrapper, *pytest_command("-k", "within")], folder, **kept)
    finally:
        for path in (folder, cache):
            path.chmod(0o755)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 estimated (1 within, 0 over)" in done.stdout
    assert f"membudget: estimates could not be kept for later sessions: {_why()}: {cache}" in done.stdout


def _why():
    return "Read-only file system" if os.geteuid() == 0 else "Permission denied"


def test_a_report_that_finds_no_space_is_a_notice_and_leaves_no_older_one(tmp_path, write_all):
    write_all(
        tmp_path, {"test_it.py": "import pytest\n@pytest.mark.mem_budget(gib=0)\ndef test_it(): pass\n"}
    )
    (tmp_path / "rep").mkdir()
    (tmp_path / "rep" / "report.json").write_text('{"of": "an earlier session"}')
    limit = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh"]  # 512 bytes a file
    done = run([*limit, *pytest_command("--membudget-report=rep", "-p", "no:cacheprovider")], tmp_path)

    assert done.returncode == 1
    assert "membudget: the report could not be written: [Errno 27] File too large" in done.stdout
    assert "mem_budget(gib=0): write a finite number of GiB above 0" in done.stdout
    assert list((tmp_path / "rep").iterdir()) == []


@pytest.mark.usefixtures("warm_processes")
def test_no_space_for_anything_is_a_notice_for_each_and_fails_no_budget(tmp_path, write_all, cache_in):
    mount = (
        'mount -t tmpfs -o size=96k full "$1" || exit 99; cd "$1"; cp ../it.py test_it.py; cp -a ../kept .; '
    )
    fill = "dd if=/dev/zero of=rest bs=1k count=1000 2>/dev/null; "
    full = tmp_path / "full"
    write_all(tmp_path, {"it.py": BUDGETS.replace("from holding import hold", _HOLD), **SNAPSHOTS})
    full.mkdir()
    cache_in(tmp_path / "kept")
    wrapper = ["unshare", "-m", "sh", "-c", mount + fill + 'shift; exec "$@"', "sh", str(full)]
    try:
        allowed = os.geteuid() == 0 and run([*wrapper, "true"], tmp_path).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("no file system may be mounted here")

    args = ("-k", "within", "--membudget-report=rep", "-p", "no:cacheprovider")
    kept = {"MEMBUDGET_CACHE_DIR": str(full / "kept"), "TMPDIR": str(full), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run([*wrapper, *pytest_command(*args)], tmp_path, **kept)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 estimated (1 within, 0 over)" in done.stdout
    assert "membudget: the report could not be written: [Errno 28] No space left on device" in done.stdout
    assert "membudget: 1 of the snapshots could not be written: No space left on device" in done.stdout


_HOLD = """import torch

    def hold(gib):
        return torch.empty(int(gib * 2**30), dtype=torch.uint8, device="cuda")
"""
