"""``membudget install-torch``: pip installs wheels of a few hundred bytes, from a folder for an index."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pytest_membudget
from pytest_membudget.commands import torch_folder
from pytest_membudget.commands.installers import Installer
from pytest_membudget.commands.torch_folder import TorchFolder
from pytest_membudget.devices.torch_build.build import TorchBuild
from pytest_membudget.errors import UsageMistake
from tests.commands.tiny_wheels import write_others, write_torch

pytestmark = pytest.mark.slow

pytest.importorskip("pip", reason="the wheels are installed by pip")

SOURCES = Path(pytest_membudget.__file__).parent.parent
#: Stands before pip: writes what looks like torch, then waits for the file ``go`` and hands on to pip.
SLOW_PIP = """
import os, pathlib, runpy, shutil, sys, time
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
runs = pathlib.Path(os.environ["RUNS"])
if not (runs / "go").exists():
    (target / "torch").mkdir(parents=True, exist_ok=True)
    (target / "torch/version.py").write_text("__version__ = '2.13.0+cu130'\\ncuda = '13.0'\\n")
(runs / str(os.getpid())).touch()
while not (runs / "go").exists():
    time.sleep(0.02)
    if (runs / "go").exists():
        shutil.rmtree(target / "torch")  # pip would leave what is there
own = pathlib.Path(__file__).parents[1]
sys.path[:] = [path for path in sys.path if not path or pathlib.Path(path) != own]
sys.modules.pop("pip")
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


class Environment:
    """An environment with torch's CPU build, as its files say, an index, and an empty cache."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = folder / "cache"
        self.index = folder / "index"
        self.packages = folder / "packages"
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
            "MEMBUDGET_CACHE_DIR": str(self.cache),
            "PYTHONPATH": os.pathsep.join([str(self.packages), str(SOURCES)]),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "COLUMNS": "1000",
        }
        self.variables.pop("MEMBUDGET_TORCH", None)
        self.has("torch", "2.13.0+cpu")

    def has(self, name, version, **of_torch):
        info = self.packages / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if name == "torch":
            values = {"__version__": version, "cuda": None, "hip": None, **of_torch}
            (self.packages / "torch").mkdir(exist_ok=True)
            (self.packages / "torch/__init__.py").touch()
            lines = [f"{key} = {value!r}\n" for key, value in values.items()]
            (self.packages / "torch/version.py").write_text("".join(lines))

    def start(self, *arguments, **more):
        return subprocess.Popen(
            [sys.executable, "-m", "pytest_membudget", "install-torch", *map(str, arguments)],
            env={**self.variables, **more},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, **more):
        process = self.start(*arguments, **more)
        out, _ = process.communicate(timeout=120)
        return process.returncode, out

    @property
    def installed(self):
        """The one folder in the cache, or None; nothing unfinished may be beside it."""
        found = [path for path in self.cache.glob("torch/*") if path.suffix != ".lock"]
        assert len(found) < 2
        return found[0] if found else None


def with_wheels(folder):
    found = Environment(folder)
    write_torch(found.index)
    write_torch(found.index, "2.13.0+cpu", None)
    write_torch(found.index, "2.14.0")
    write_others(found.index)
    return found


@pytest.fixture
def environment(tmp_path):
    return with_wheels(tmp_path)


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A cache with torch's build, to be copied: each pip takes a second.

    Settings that are meant for the environment do not hold for the folder.
    """
    found = with_wheels(tmp_path_factory.mktemp("installed"))
    constraint = found.folder / "constraints.txt"
    constraint.write_text("torch==2.13.0+cpu\n")
    status, found.out = found.run(
        PIP_CONSTRAINT=str(constraint), PIP_USER="1", PIP_REQUIRE_VIRTUALENV="1", PIP_NO_DEPS="0"
    )
    assert status == 0, found.out
    return found


def test_the_cuda_build_of_the_environments_version_and_the_cudnn_that_it_requires(installation):
    folder, out = installation.installed / "site-packages", installation.out

    installed = {path.name for path in folder.iterdir() if path.suffix != ".dist-info"}
    assert installed == {"nvidia", "torch", "torchgen"}
    assert "2.13.0+cu130" in (folder / "torch/version.py").read_text()
    assert list(folder.glob("torch/__pycache__/version.*.pyc"))
    assert (folder / "nvidia/cudnn/lib/libcudnn.so.9").read_text() == "9.20.0.48"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert (
        f"installing torch 2.13.0 for CUDA and cuDNN (0.9 GB download, 1.7 GB on disk) into {folder.parent}\n"
        in out
    )
    assert f"workers import torch 2.13.0+cu130 from {folder.parent}: 0.0 GB" in out


def test_what_is_there_is_not_installed_again(installation):
    before = installation.installed.stat().st_mtime_ns

    status, out = installation.run(PIP_FIND_LINKS="/nowhere")

    assert status == 0
    assert "workers import torch 2.13.0+cu130" in out
    assert installation.installed.stat().st_mtime_ns == before


def test_a_damaged_folder_is_installed_again(environment, installation):
    shutil.copytree(installation.cache, environment.cache)
    library = environment.installed / "site-packages/torch/lib/libtorch_cuda.so"
    library.write_text("E")

    status, out = environment.run()

    assert status == 0, out
    packages = environment.installed / "site-packages"
    assert f"{packages}: torch/lib/libtorch_cuda.so is missing or cut short: installing it" in out
    assert library.read_text() == "ELF"


def test_a_folder_of_another_layout_is_replaced(environment, installation):
    write_torch(environment.cache / "torch" / installation.installed.name / "torch")

    status, out = environment.run()

    assert status == 0, out
    assert [path.name for path in environment.installed.iterdir()] == ["site-packages"]


def test_extensions_go_into_folders_of_their_own_and_torch_is_not_fetched_for_them(environment, installation):
    shutil.copytree(installation.cache, environment.cache)
    environment.has("torchvision", "0.28.0+cpu")
    for wheel in environment.index.glob("torch-*"):
        wheel.unlink()

    _, hint = environment.run()
    status, out = environment.run("--with", "TorchVision", "--with", "triton")
    again = environment.run("--with", "triton", PIP_FIND_LINKS="/nowhere")

    assert (
        "torchvision 0.28.0 is a CPU build: if tests import it, run `membudget install-torch --with" in hint
    )
    assert (status, again[0]) == (0, 0), out
    assert (
        environment.installed / "with/torchvision-0.28.0/site-packages/torchvision/_C.so"
    ).read_text() == "CUDA"
    assert (environment.installed / "with/triton-3.7.1/site-packages/triton").is_dir()
    assert "and torchvision-0.28.0\nand triton-3.7.1\n" in out
    assert "is a CPU build" not in out


def test_the_folder_is_printed_for_the_keys_of_caches(environment, installation):
    status, out = environment.run("--print-folder")

    assert status == 0
    assert environment.installed is None
    assert Path(out.strip()).name == installation.installed.name
    assert Path(out.strip()).parent == environment.cache / "torch"


@pytest.mark.parametrize("way", ["own", "named"])
def test_where_workers_have_a_cuda_build_nothing_is_installed(environment, installation, way):
    if way == "own":
        environment.has("torch", "2.13.0+cu130", cuda="13.0")
        named, folder = {}, environment.packages
    else:
        folder = installation.installed / "site-packages"
        named = {"MEMBUDGET_TORCH": str(folder)}

    assert environment.run("--print-folder", **named) == (0, "")
    assert environment.run(**named) == (
        0,
        f"workers import torch 2.13.0+cu130 from {folder}: nothing to install\n",
    )


def test_nothing_is_added_to_a_folder_that_was_named(environment, installation):
    named = installation.installed / "site-packages"

    status, out = environment.run("--with", "triton", MEMBUDGET_TORCH=str(named))

    assert (status, out) == (
        2,
        f"membudget: MEMBUDGET_TORCH={named} is used: install there by `pip install --target`\n",
    )


INSTEAD = "give a wheel, `membudget install-torch --from FILE.whl`, or a folder in MEMBUDGET_TORCH"
ROCM, NIGHTLY, SOURCE = "2.13.0+rocm7.0", "2.15.0.dev20251101+cpu", "2.15.0a0+gitcf30153"
#: Of the environment's torch, or of what is asked for, why it cannot be had, and the way out.
REFUSED = [
    (ROCM, "", f"torch {ROCM} is a build for ROCm, and estimates need one for CUDA: {INSTEAD}"),
    (
        NIGHTLY, "",
        f"torch {NIGHTLY} is a nightly build without CUDA, and PyPI has releases alone: {INSTEAD}",
    ),
    (
        SOURCE, "",
        f"torch {SOURCE} is built from sources without CUDA, and no index has another build: {INSTEAD}",
    ),
    *(
        ("", asked, f"{asked}: write triton, or a distribution of this environment besides torch")
        for asked in ("--with torchaudio", "--with torch")
    ),
    *(
        ("", asked, f"{asked}: there is no wheel (a file, or a folder with *.whl)")
        for asked in ("--from none.whl", "--from empty")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("version", "asked", "message"), REFUSED)
def test_what_cannot_be_had_is_refused_with_the_way_out(environment, version, asked, message):
    (environment.folder / "empty").mkdir()
    if version:
        environment.has("torch", version, hip="7.0.5" if version == ROCM else None)

    assert environment.run(*asked.split()) == (2, f"membudget: {message}\n")
    assert environment.installed is None


def test_an_environment_without_torch_has_nothing_to_install(environment):
    shutil.rmtree(environment.packages)
    code = "import sys, importlib.util as u; u.find_spec = lambda name: None; "
    code += "from pytest_membudget.commands.main import main; sys.exit(main(['install-torch']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment.variables, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 2
    assert done.stderr.startswith("membudget: this environment has no torch: install it first")


@pytest.mark.parametrize("missing", ["torch-2.13.0-*", "nvidia_cudnn_cu13-9.20*"])
def test_nothing_is_kept_where_pip_finds_no_wheel(environment, missing):
    [wheel] = environment.index.glob(missing)
    wheel.unlink()

    status, out = environment.run()

    assert status == 2
    assert "No matching distribution found for" in out
    assert "membudget: pip could not install " in out
    assert "(exit status 1): its message is above, and nothing was kept" in out
    assert environment.installed is None


def test_a_wheel_without_cuda_is_not_kept(environment):
    write_torch(environment.index, cuda=None)

    status, out = environment.run()

    assert status == 2
    assert "the wheel of torch cannot be used: torch 2.13.0+cpu is a build without CUDA" in out
    assert environment.installed is None


# Wheels in files


def test_wheels_of_a_folder_and_files_need_no_index(environment):
    environment.has("torchvision", "0.28.0+cpu")
    write_torch(environment.index, tag="cp37-cp37m-manylinux_2_28_x86_64")
    [vision] = environment.index.glob("torchvision-0.28.0-*")
    apart = vision.rename(environment.folder / vision.name)

    status, out = environment.run(
        "--from", "index", "--from", apart.name, "--with", "torchvision", PIP_FIND_LINKS="/nowhere"
    )

    assert status == 0, out
    assert "GB download" not in out
    assert (environment.installed / "site-packages/nvidia/cudnn/lib/libcudnn.so.9").read_text() == "9.20.0.48"
    assert (
        environment.installed / "with/torchvision-0.28.0/site-packages/torchvision/_C.so"
    ).read_text() == "CUDA"


@pytest.mark.parametrize(
    "given",
    [
        {"version": "2.14.0"},
        {"version": "2.13.0+cpu"},
        {"tag": "cp37-cp37m-manylinux_2_28_x86_64"},
        {"tag": "cp311-cp311-manylinux_2_28_riscv64"},
    ],
)
def test_a_wheel_that_does_not_fit_is_refused_whatever_pip_finds_else(environment, given):
    wheel = write_torch(environment.folder / "given", **given)

    status, out = environment.run("--from", wheel)

    assert status == 2
    assert "No matching distribution found for torch" in out
    assert "membudget: pip could not install torch==2.13.0,!=2.13.0+cpu (exit status 1)" in out
    assert environment.installed is None


# Interrupted, twice at once, without room


@pytest.fixture
def slow(environment, monkeypatch):
    """pip as it is in the middle of an installation; it ends when ``slow("go")`` is there."""
    (environment.packages / "pip").mkdir()
    (environment.packages / "pip/__init__.py").touch()
    (environment.packages / "pip/__main__.py").write_text(SLOW_PIP)
    runs = environment.folder / "runs"
    runs.mkdir()
    environment.variables["RUNS"] = str(runs)
    return runs


def wait_for_a_run(runs):
    end = time.monotonic() + 60
    while not list(runs.glob("[0-9]*")):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_installation_leaves_nothing_that_looks_complete(environment, slow, number):
    process = environment.start()
    wait_for_a_run(slow)
    os.killpg(process.pid, number)
    out, _ = process.communicate(timeout=60)

    if number == signal.SIGINT:
        assert process.returncode == 130
        assert out.endswith("membudget: interrupted\n")
        assert environment.installed is None
    else:
        folders = [path for path in environment.cache.glob("torch/*") if path.is_dir()]
        assert [path.name[:12] for path in folders] == [".installing-"]
    (slow / "go").touch()
    assert environment.run()[0] == 0
    assert (environment.installed / "site-packages/torchgen").is_dir()


def test_the_second_of_two_waits_and_finds_it_done(environment, slow):
    first = environment.start()
    wait_for_a_run(slow)
    second = environment.start()
    assert second.stdout.readline().startswith("another process is installing into ")
    (slow / "go").touch()

    outs = [process.communicate(timeout=120)[0] for process in (first, second)]

    assert [process.returncode for process in (first, second)] == [0, 0], outs
    assert "workers import torch 2.13.0+cu130" in outs[1]
    assert len(list(slow.glob("[0-9]*"))) == 2  # torch and cuDNN, once


def test_a_disk_without_room_is_seen_before_the_download(tmp_path, monkeypatch):
    monkeypatch.setattr(
        torch_folder.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 2_000_000_000)
    )
    never = Installer("pip", ("false",))
    environment = {"MEMBUDGET_CACHE_DIR": str(tmp_path)}
    place = TorchFolder(tmp_path / "torch/2.13.0", TorchBuild(tmp_path, "2.13.0+cpu"), never, environment)

    with pytest.raises(UsageMistake, match=r"torch needs 2\.1 GB free and has 2\.0 GB: free some, or name"):
        place.fill([])


def test_a_cache_that_cannot_be_written_is_named(environment):
    environment.cache.touch()

    status, out = environment.run()

    assert status == 2
    assert out.endswith("Not a directory; MEMBUDGET_CACHE_DIR names another\n")
