"""What takes the places of NVIDIA's libraries: written once for a torch, and nothing of theirs is loaded."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.building import CannotBuild
from pytest_membudget.devices.stand_in.compiling import LIBRARY
from pytest_membudget.devices.stand_in.environment import CUDNN_VARIABLE, stand_in_environment
from pytest_membudget.devices.stand_in.linked.elf_reader import (
    defined_functions,
    needed_symbols,
    read_shared_object,
)
from pytest_membudget.devices.stand_in.linked.libraries import linked_libraries
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

pytestmark = pytest.mark.slow

NVIDIA = re.compile(r"lib(cu|nv|nccl)")


@pytest.fixture
def environment(tmp_path):
    """The cache is the test's own."""
    return {"MEMBUDGET_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}


def needed_sonames(torch):
    found = set()
    for path in (torch / "lib").glob("*.so*"):
        found |= {name for name in read_shared_object(path).needed if NVIDIA.match(name)}
    return found


def sonames_of(paths):
    return {read_shared_object(path).soname for path in paths}


# What is written


def test_each_soname_that_torch_needs_is_written_but_cudnn_s(cuda_build, torch_folder, environment):
    """No file's name makes torch load the real ones: it looks for "libcudart.so" in /proc/self/maps."""
    linked = linked_libraries(torch_folder, cuda_build, environment)

    names = {"libcuda.so.1", "libnvidia-ml.so.1", *needed_sonames(torch_folder)}
    assert any(name.startswith("libcublas.so.") for name in names)
    assert sonames_of(linked.paths) == {name for name in names if not name.startswith("libcudnn.")}
    assert not [path for path in linked.paths if "libcudart.so" in str(path)]


def test_every_symbol_that_torch_needs_is_defined_by_the_stand_in_or_what_was_written(
    cuda_build, torch_alone, environment
):
    """Without cuDNN its place is taken too."""
    linked = linked_libraries(torch_alone, cuda_build, environment)

    sonames = sonames_of(linked.paths)
    assert any(name.startswith("libcudnn.so.") for name in sonames)
    defined = defined_functions(cuda_build / LIBRARY).union(*map(defined_functions, linked.paths))
    needed = {
        symbol.name
        for path in (torch_alone / "lib").glob("*.so*")
        for symbol in needed_symbols(path)
        if symbol.library in sonames
    }
    assert len(needed) > 400
    assert needed <= defined


def test_no_function_of_ours_is_refused_and_what_will_be_looked_up_is(cuda_build, torch_folder, environment):
    """Without cuLinkAddData no engine of cuDNN 9.26 that compiles at run time makes a plan."""
    linked = linked_libraries(torch_folder, cuda_build, environment)

    own = defined_functions(cuda_build / LIBRARY)
    refusing = set().union(*map(defined_functions, linked.paths)) - {"stand_in_linked"}
    assert not refusing & own
    assert {"cuFileRead", "nvshmem_malloc"} <= refusing
    assert {"cuInit", "cuMemCreate"} <= own
    (driver,) = [path for path in linked.paths if read_shared_object(path).soname == "libcuda.so.1"]
    refused = defined_functions(driver)
    assert "cuMulticastBindMem" in refused
    if list(torch_folder.parent.glob("nvidia/cudnn/lib/libcudnn.so.*")):
        assert {"cuLinkAddData", "cuCtxPushCurrent"} <= refused


# The cache


def test_they_are_written_once_however_many_ask_and_again_where_one_was_lost(
    cuda_build, torch_alone, environment
):
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(linked_libraries, torch_alone, cuda_build, environment) for _ in range(8)]
    (first,) = {done.result() for done in asked}
    assert len(list(Path(environment["MEMBUDGET_CACHE_DIR"], "stand-in").iterdir())) == 1

    written = [path.stat().st_mtime_ns for path in first.paths]
    assert linked_libraries(torch_alone, cuda_build, environment) == first
    assert [path.stat().st_mtime_ns for path in first.paths] == written

    first.paths[0].unlink()
    assert linked_libraries(torch_alone, cuda_build, environment) == first
    assert first.paths[0].is_file()


def test_a_cudnn_that_is_installed_later_is_seen(cuda_build, torch_alone, torch_folder, environment):
    installed = list(torch_folder.parent.glob("nvidia/cudnn/lib/libcudnn.so.*"))
    if not installed:
        pytest.skip("cuDNN is not installed beside torch")
    without = linked_libraries(torch_alone, cuda_build, environment)

    found = linked_libraries(
        torch_alone, cuda_build, {**environment, "LD_LIBRARY_PATH": str(installed[0].parent)}
    )

    assert sonames_of(without.paths) - sonames_of(found.paths) == {installed[0].name}


def test_a_torch_whose_libraries_cannot_be_read_is_named(cuda_build, tmp_path, environment):
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "version.py").write_text("cuda = '13.0'")
    (tmp_path / "torch" / "lib" / "libtorch_cuda.so").write_text("cut short")

    with pytest.raises(CannotBuild, match=r"libtorch_cuda\.so is no shared object"):
        linked_libraries(tmp_path / "torch", cuda_build, environment)


# A process that has them

PEAKS = textwrap.dedent(r"""
    import ctypes, json, re, sys
    import torch

    def peak(body):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        body()
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()

    def step():
        model = torch.nn.Linear(1024, 4096).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(8, 1024, device="cuda")).sum().backward()
        optimizer.step()

    def solve():
        matrix = torch.eye(64, device="cuda")
        torch.linalg.svd(matrix)
        torch.linalg.qr(matrix)
        torch.linalg.eigh(matrix)
        torch.linalg.solve(matrix, matrix)

    def transform():
        torch.fft.irfft(torch.fft.rfft(torch.ones(64, 1000, device="cuda")))

    def multiply_sparse():
        torch.sparse.mm(torch.eye(256, device="cuda").to_sparse_csr(), torch.ones(256, 64, device="cuda"))

    def compile_kernels():
        values = torch.ones(1000, device="cuda")
        torch.special.bessel_j0(values)
        torch.complex(values, values).prod()
        own = torch.cuda.jiterator._create_jit_fn("template <typename T> T own(T x) { return x + 1; }")
        own(values)

    def convolve():
        torch.nn.Conv2d(8, 16, 3).cuda()(torch.ones(4, 8, 32, 32, device="cuda")).sum().backward()

    peaks = {name: peak(globals()[name]) for name in sys.argv[1:]}
    paths = open("/proc/self/maps").read()
    mapped = sorted(set(re.findall(r"/(lib(?:cu|nv|nccl)[^/\n]*)$", paths, re.MULTILINE)))
    nccl = torch.cuda.nccl.version()
    print(json.dumps({"peaks": peaks, "mapped": mapped, "torch": torch.__file__, "nccl": nccl}))
    """)
BODIES = ["step", "solve", "transform", "multiply_sparse", "compile_kernels"]
#: ``own``: the stand-in's library, which says at the end what was not modelled.
OWN = """
import ctypes, sys
own = ctypes.CDLL(None)
own.stand_in_not_modelled.restype = own.stand_in_refused.restype = ctypes.c_char_p
print({printed}, own.stand_in_not_modelled().decode(), own.stand_in_refused().decode())
"""


def run(libraries, code, *arguments, torch=None, gpu="A100-80GB", **more):
    torch = torch or workers_torch(os.environ)
    environment = {**stand_in_environment(libraries, torch, find_gpu(gpu), 1, os.environ), **more}
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def said(libraries, printed, *arguments, **where):
    done = run(libraries, OWN.format(printed=printed), *arguments, **where)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def full(cuda_build):
    """All bodies, where NVIDIA's libraries are installed."""
    done = run(cuda_build, PEAKS, *BODIES, "convolve")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_library_of_nvidia_s_but_cudnn_s_is_loaded(full):
    """By what is mapped when all of them were called; libcuda and libnvidia-ml are the stand-in's own."""
    mapped = {name for name in full["mapped"] if not name.startswith("libcudnn")}
    assert mapped == {"libcuda.so.1", "libnvidia-ml.so.1"}


def test_torch_s_wheel_alone_gives_the_same_bytes(cuda_build, build_alone, full, tmp_path):
    """What NVRTC did not compile is not left in the user's cache of kernels.

    A GPU would be given an empty kernel from there (aten/src/ATen/native/cuda/jit_utils.cpp).
    """
    kernels = tmp_path / "kernels"
    kernels.mkdir()

    done = run(cuda_build, PEAKS, *BODIES, torch=build_alone, PYTORCH_KERNEL_CACHE_PATH=str(kernels))

    assert done.returncode == 0, done.stderr
    alone = json.loads(done.stdout)
    assert alone["torch"] == str(build_alone.folder / "torch" / "__init__.py")
    assert alone["mapped"] == ["libcuda.so.1", "libnvidia-ml.so.1"]
    assert alone["peaks"] == {name: peak for name, peak in full["peaks"].items() if name != "convolve"}
    assert alone["nccl"] == full["nccl"]
    assert list(kernels.iterdir()) == []


def test_with_cudnn_it_convolves_as_well(cuda_build, build_alone, torch_folder, full, monkeypatch):
    folder = torch_folder.parent / "nvidia" / "cudnn" / "lib"
    if not folder.is_dir():
        pytest.skip("cuDNN is not installed beside torch")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))

    done = run(cuda_build, PEAKS, *BODIES, "convolve", torch=build_alone)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peaks"] == full["peaks"]


@pytest.mark.parametrize("gpu", ["A100-80GB", "H100-80GB"])
def test_without_cudnn_a_convolution_is_refused_with_the_command_that_brings_it(cuda_build, build_alone, gpu):
    done = run(cuda_build, PEAKS, "convolve", torch=build_alone, gpu=gpu)

    assert done.returncode == 1
    assert "cuDNN's own library, which plans this, is not here: run `membudget install-torch`" in done.stderr


def test_without_cudnn_a_test_that_catches_the_error_is_given_the_command_too(cuda_build, build_alone):
    """PyTorch creates a handle first, which asks cuDNN's library what the test has not asked."""
    words = said(cuda_build, "own.cudnnCreate(ctypes.byref(ctypes.c_void_p()))", torch=build_alone)

    assert " ".join(words) == "0 cuDNN (not installed: `membudget install-torch` brings it)"


@pytest.mark.parametrize(("version", "expected"), [("92000", ["92000"]), ("0", ["0", "cudnnGetVersion"])])
def test_a_cudnn_of_which_not_even_the_version_is_known_is_named(cuda_build, build_alone, version, expected):
    """By its version PyTorch chooses whether cuDNN computes attention, which takes other memory."""
    where = {"torch": build_alone, "gpu": "H100-80GB", CUDNN_VARIABLE: version}

    assert said(cuda_build, "own.cudnnGetVersion()", **where) == expected


def test_a_function_of_the_driver_that_is_looked_up_is_ours_or_refuses(cuda_build):
    """As cuDNN and Triton look it up, in a library that they open by its name."""
    driver = "(driver := ctypes.CDLL('libcuda.so.1')).cuInit(0), driver.cuMulticastBindMem()"

    # CUDA_ERROR_NOT_SUPPORTED
    assert said(cuda_build, driver) == ["0", "801", "cuMulticastBindMem"]


@pytest.fixture
def extension(tmp_path):
    """``extension(function)``: a library that calls a function of cuSPARSE's."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")

    def made(function):
        source, path = tmp_path / "extension.c", tmp_path / "extension.so"
        source.write_text(f"int {function}(void); int call(void) {{ return {function}(); }}\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
        return path

    return made


CALL = "ctypes.CDLL(sys.argv[1]).call()"


def test_an_extension_is_answered_by_what_the_stand_in_defines(cuda_build, extension):
    assert said(cuda_build, CALL, extension("cusparseSpMM")) == ["0"]


def test_what_torch_does_not_call_and_an_installed_library_has_is_refused_by_name(
    cuda_build, extension, torch_folder
):
    if not list(torch_folder.parent.glob("nvidia/*/lib/libcusparse.so.*")):
        pytest.skip("cuSPARSE is not installed beside torch")

    # CUSPARSE_STATUS_NOT_SUPPORTED
    assert said(cuda_build, CALL, extension("cusparseSbsric02")) == ["10", "cusparseSbsric02"]


def test_an_extension_that_calls_what_nobody_has_does_not_load_and_names_it(cuda_build, extension):
    done = run(cuda_build, OWN.format(printed=CALL), extension("cusparseOfTomorrow"))

    assert done.returncode == 1
    assert "undefined symbol: cusparseOfTomorrow" in done.stderr
