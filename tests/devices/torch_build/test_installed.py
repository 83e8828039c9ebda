"""Where workers find a CUDA build of torch, and why one is not taken."""

import platform
import sys
import sysconfig
from pathlib import Path

import pytest

from pytest_membudget.devices.torch_build import installed
from pytest_membudget.devices.torch_build.build import TorchBuild
from pytest_membudget.devices.torch_build.installed import (
    folder_for,
    installed_for_worker,
    no_cuda_build,
    workers_torch,
)
from pytest_membudget.errors import UsageMistake

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"
CPU_BUILD = TorchBuild(Path("site-packages"), "2.13.0+cpu")


@pytest.fixture
def own_torch(monkeypatch):
    """Says which torch the environment has: 2.13.0's CPU build."""

    def set_to(build):
        monkeypatch.setattr(installed, "environments_torch", lambda: build)

    set_to(CPU_BUILD)
    return set_to


@pytest.fixture
def environment(tmp_path):
    return {"MEMBUDGET_CACHE_DIR": str(tmp_path / "cache")}


def torch_in(folder, version="2.13.0+cu130", cuda="13.0", suffix=SUFFIX):
    """A folder with what a wheel of torch has, of a few bytes."""
    (folder / "torch/lib").mkdir(parents=True)
    (folder / "torch/version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
    (folder / f"torch/_C{suffix}").write_bytes(b"ELF")
    (folder / "torch/lib/libtorch_cuda.so").write_bytes(b"ELF" * 4)
    record = folder / f"torch-{version.partition('+')[0]}.dist-info/RECORD"
    record.parent.mkdir()
    record.write_text("torch/version.py,sha256=x,40\ntorch/lib/libtorch_cuda.so,sha256=x,12\n")
    return folder


def test_the_folder_is_that_of_the_version_the_python_and_the_machine(environment):
    folder = folder_for(CPU_BUILD, environment)

    assert folder.parent == Path(environment["MEMBUDGET_CACHE_DIR"], "torch")
    assert folder.name == f"2.13.0-{PYTHON}-{platform.machine()}"


def test_the_named_folder_comes_before_the_environments_own_and_that_before_the_cache(
    own_torch, environment, tmp_path
):
    cached = torch_in(folder_for(CPU_BUILD, environment) / "site-packages")
    found = workers_torch(environment)
    assert found == TorchBuild(cached, "2.13.0+cu130", "13.0")
    assert found.import_path == (cached,)

    own = TorchBuild(Path("site-packages"), "2.13.0+cu130", "13.0")
    own_torch(own)
    assert workers_torch(environment) == own

    named = torch_in(tmp_path / "named", "2.13.0+cu126", "12.6")
    found = workers_torch({**environment, "MEMBUDGET_TORCH": str(named)})
    assert found == TorchBuild(named, "2.13.0+cu126", "12.6")


def test_without_one_the_message_has_the_command_and_its_sizes(own_torch, environment):
    assert installed_for_worker(environment) is None
    with pytest.raises(UsageMistake) as caught:
        workers_torch(environment)

    assert str(caught.value) == (
        "torch 2.13.0+cpu has no CUDA code: run `membudget install-torch` once "
        "(0.9 GB download, 1.7 GB on disk); pytest itself downloads nothing"
    )


def test_without_torch_there_is_nothing_to_find(own_torch, environment):
    own_torch(None)

    with pytest.raises(UsageMistake, match=r"^torch is not installed$"):
        workers_torch(environment)


@pytest.mark.parametrize(
    ("given", "why_not"),
    [
        ({"version": "2.13.0+cpu", "cuda": None}, r"torch 2.13.0\+cpu is a build without CUDA"),
        (
            {"version": "2.12.1+cu130"},
            r"it has torch 2.12.1\+cu130, and this environment torch 2.13.0\+cpu: versions must be equal",
        ),
        (
            {"suffix": ".cpython-37m-x86_64-linux-gnu.so"},
            r"its torch 2.13.0\+cu130 is for another Python than 3\.\d+t?, or another machine",
        ),
    ],
)
def test_a_build_that_this_environment_cannot_use_is_refused(
    own_torch, environment, tmp_path, given, why_not
):
    named = torch_in(tmp_path / "named", **given)

    with pytest.raises(UsageMistake, match=f"^MEMBUDGET_TORCH={named}: {why_not}; name another folder$"):
        workers_torch({**environment, "MEMBUDGET_TORCH": str(named)})


def test_a_named_folder_without_torch_is_refused(own_torch, environment, tmp_path):
    with pytest.raises(UsageMistake, match=r"MEMBUDGET_TORCH=.*: there is no torch in it"):
        workers_torch({**environment, "MEMBUDGET_TORCH": str(tmp_path)})


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"ELF")])
def test_a_folder_with_half_a_library_is_refused(own_torch, environment, damage):
    folder = torch_in(folder_for(CPU_BUILD, environment) / "site-packages")
    damage(folder / "torch/lib/libtorch_cuda.so")

    with pytest.raises(
        UsageMistake,
        match=f"^{folder}: torch/lib/libtorch_cuda.so is missing or cut short; "
        "run `membudget install-torch` again$",
    ):
        workers_torch(environment)


def test_an_extension_is_used_where_the_environment_has_the_same_version(own_torch, environment, monkeypatch):
    folder = torch_in(folder_for(CPU_BUILD, environment) / "site-packages")
    for name in ("torchvision-0.28.0", "torchaudio-2.11.0", "bitsandbytes-0.49.0", "triton-3.7.1"):
        (folder.parent / "with" / name / "site-packages").mkdir(parents=True)
    versions = {"torchvision": "0.28.0", "bitsandbytes": "0.50.0"}
    monkeypatch.setattr(installed, "environments_version", versions.get)

    found = workers_torch(environment)

    assert [path.parent.name for path in found.extensions] == ["torchvision-0.28.0", "triton-3.7.1"]
    assert found.import_path == (folder, *found.extensions)


@pytest.mark.parametrize(
    ("platform", "host", "reason"),
    [
        ("linux", "x86_64-pc-linux-musl", "its CUDA build runs on Linux with glibc alone"),
        ("darwin", None, "its CUDA build runs on Linux with glibc alone"),
        ("linux", "x86_64-pc-linux-gnu", "run `membudget install-torch` once"),
    ],
)
def test_where_no_cuda_build_runs_none_is_suggested(monkeypatch, platform, host, reason):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sysconfig, "get_config_var", {"HOST_GNU_TYPE": host}.get)

    assert reason in no_cuda_build(CPU_BUILD)
    assert ("install-torch" in no_cuda_build(CPU_BUILD)) == reason.startswith("run")


def test_a_session_with_a_nightly_build_is_not_sent_to_an_index():
    nightly = TorchBuild(Path("site-packages"), "2.15.0.dev20251101+cpu")

    assert no_cuda_build(nightly).endswith(
        "give a wheel, `membudget install-torch --from FILE.whl`, or a folder in MEMBUDGET_TORCH"
    )
