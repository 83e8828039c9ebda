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
from pytest_membudget.devices.stand_in.environment import CUDNN_VARIABLE, stand_in_environment
from pytest_membudget.devices.stand_in.linked.elf_reader import (
    defined_functions,
    needed_symbols,
    read_shared_object,
)
from pytest_membudget.devices.stand_in.linked.libraries import linked_libraries
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

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
    linked = linked_libraries(torch_folder, cuda_build, environment)

    names = {"libcuda.so.1", *needed_sonames(torch_folder)}
    assert any(name.startswith("libcublas.so.") for name in names)
    assert sonames_of(linked.paths) == {name for name in names if not name.startswith("libcudnn.")}


def test_without_cudnn_its_place_is_taken_too(cuda_build, torch_alone, environment):
    linked = linked_libraries(torch_alone, cuda_build, environment)

    assert any(name.startswith("libcudnn.so.") for name in sonames_of(linked.paths))


def test_every_symbol_that_torch_needs_is_defined_by_the_stand_in_or_what_was_written(
    cuda_build, torch_alone, environment
):
    linked = linked_libraries(torch_alone, cuda_build, environment)

    sonames = sonames_of(linked.paths)
    defined = defined_functions(cuda_build.library).union(*map(defined_functions, linked.paths))
    needed = {
        symbol.name
        for path in (torch_alone / "lib").glob("*.so*")
        for symbol in needed_symbols(path)
        if symbol.library in sonames
    }
    assert len(needed) > 400
    assert needed <= defined


def test_no_function_of_ours_is_refused(cuda_build, torch_folder, environment):
    linked = linked_libraries(torch_folder, cuda_build, environment)

    refusing = set().union(*map(defined_functions, linked.paths)) - {"stand_in_linked"}
    assert not refusing & defined_functions(cuda_build.library)
    assert {"cuFileRead", "nvshmem_malloc"} <= refusing


def test_no_file_s_name_makes_torch_load_the_real_libraries(cuda_build, torch_folder, environment):
    """``_load_global_deps`` of torch/__init__.py looks for "libcudart.so" in /proc/self/maps."""
    linked = linked_libraries(torch_folder, cuda_build, environment)

    assert not [path for path in linked.paths if "libcudart.so" in str(path)]


def test_the_driver_refuses_what_cudnn_and_pytorch_will_look_up(cuda_build, torch_folder, environment):
    """Without cuLinkAddData no engine of cuDNN 9.26 that compiles at run time makes a plan."""
    linked = linked_libraries(torch_folder, cuda_build, environment)

    (driver,) = [path for path in linked.paths if read_shared_object(path).soname == "libcuda.so.1"]
    refused, own = defined_functions(driver), defined_functions(cuda_build.library)
    assert "cuMulticastBindMem" in refused
    assert {"cuInit", "cuMemCreate"} <= own
    if list(torch_folder.parent.glob("nvidia/cudnn/lib/libcudnn.so.*")):
        assert {"cuLinkAddData", "cuCtxPushCurrent"} <= refused


# The cache


def test_they_are_written_once(cuda_build, torch_alone, environment):
    first = linked_libraries(torch_alone, cuda_build, environment)
    written = [path.stat().st_mtime_ns for path in first.paths]

    assert linked_libraries(torch_alone, cuda_build, environment) == first
    assert [path.stat().st_mtime_ns for path in first.paths] == written


def test_any_number_of_processes_may_ask_at_once(cuda_build, torch_alone, environment):
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(linked_libraries, torch_alone, cuda_build, environment) for _ in range(8)]

    assert len({done.result() for done in asked}) == 1
    assert len(list(Path(environment["MEMBUDGET_CACHE_DIR"], "stand-in").iterdir())) == 1


def test_a_cudnn_that_is_installed_later_is_seen(cuda_build, torch_alone, torch_folder, environment):
    installed = list(torch_folder.parent.glob("nvidia/cudnn/lib/libcudnn.so.*"))
    if not installed:
        pytest.skip("cuDNN is not installed beside torch")
    without = linked_libraries(torch_alone, cuda_build, environment)

    found = linked_libraries(
        torch_alone, cuda_build, {**environment, "LD_LIBRARY_PATH": str(installed[0].parent)}
    )

    assert sonames_of(without.paths) - sonames_of(found.paths) == {installed[0].name}


def test_what_was_lost_is_written_again(cuda_build, torch_alone, environment):
    linked = linked_libraries(torch_alone, cuda_build, environment)
    linked.paths[0].unlink()

    assert linked_libraries(torch_alone, cuda_build, environment) == linked
    assert linked.paths[0].is_file()


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


def run(libraries, *bodies, torch=None, gpu="A100-80GB", **more):
    torch = torch or workers_torch(os.environ)
    environment = {**stand_in_environment(libraries, torch, find_gpu(gpu), 1, os.environ), **more}
    command = [sys.executable, "-W", "ignore", "-c", PEAKS, *bodies]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def full(cuda_build):
    """All bodies, where NVIDIA's libraries are installed."""
    done = run(cuda_build, *BODIES, "convolve")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_library_of_nvidia_s_but_cudnn_s_is_loaded(full):
    """By what is mapped when all of them were called; libcuda and libnvidia-ml are the stand-in's own."""
    assert {name for name in full["mapped"] if not name.startswith("libcudnn")} == {
        "libcuda.so.1",
        "libnvidia-ml.so.1",
    }


def test_torch_s_wheel_alone_gives_the_same_bytes(cuda_build, build_alone, full):
    done = run(cuda_build, *BODIES, torch=build_alone)

    assert done.returncode == 0, done.stderr
    alone = json.loads(done.stdout)
    assert alone["torch"] == str(build_alone.folder / "torch" / "__init__.py")
    assert alone["mapped"] == ["libcuda.so.1", "libnvidia-ml.so.1"]
    assert alone["peaks"] == {name: peak for name, peak in full["peaks"].items() if name != "convolve"}
    assert alone["nccl"] == full["nccl"]


def test_with_cudnn_it_convolves_as_well(cuda_build, build_alone, torch_folder, full, monkeypatch):
    folder = torch_folder.parent / "nvidia" / "cudnn" / "lib"
    if not folder.is_dir():
        pytest.skip("cuDNN is not installed beside torch")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))

    done = run(cuda_build, *BODIES, "convolve", torch=build_alone)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peaks"] == full["peaks"]


@pytest.mark.parametrize("gpu", ["A100-80GB", "H100-80GB"])
def test_without_cudnn_a_convolution_is_refused_with_the_command_that_brings_it(cuda_build, build_alone, gpu):
    done = run(cuda_build, "convolve", torch=build_alone, gpu=gpu)

    assert done.returncode == 1
    assert "cuDNN's own library, which plans this, is not here: run `membudget install-torch`" in done.stderr


CUDNN_VERSION = textwrap.dedent("""\
    import ctypes

    own = ctypes.CDLL(None)
    own.stand_in_not_modelled.restype = ctypes.c_char_p
    print(own.cudnnGetVersion(), own.stand_in_not_modelled().decode())
    """)


@pytest.mark.parametrize(("version", "said"), [("92000", ["92000"]), ("0", ["0", "cudnnGetVersion"])])
def test_a_cudnn_of_which_not_even_the_version_is_known_is_named(cuda_build, build_alone, version, said):
    """By its version PyTorch chooses whether cuDNN computes attention, which takes other memory."""
    gpu = find_gpu("H100-80GB")
    environment = {
        **stand_in_environment(cuda_build, build_alone, gpu, 1, os.environ),
        CUDNN_VARIABLE: version,
    }

    command = [sys.executable, "-c", CUDNN_VERSION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == said


def test_what_nvrtc_did_not_compile_is_not_left_in_the_user_s_cache_of_kernels(cuda_build, tmp_path):
    """A GPU would be given an empty kernel from there (aten/src/ATen/native/cuda/jit_utils.cpp)."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()

    done = run(cuda_build, "compile_kernels", PYTORCH_KERNEL_CACHE_PATH=str(kernels))

    assert done.returncode == 0, done.stderr
    assert list(kernels.iterdir()) == []


# Extensions

EXTENSION = textwrap.dedent("""\
    import ctypes, sys
    import torch

    torch.zeros(1, device="cuda")
    print(ctypes.CDLL(sys.argv[1]).call())
    own = ctypes.CDLL(None)
    own.stand_in_not_modelled.restype = ctypes.c_char_p
    print(own.stand_in_not_modelled().decode())
    """)


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


def load(libraries, extension):
    gpu = find_gpu("A100-80GB")
    environment = stand_in_environment(libraries, workers_torch(os.environ), gpu, 1, os.environ)
    command = [sys.executable, "-W", "ignore", "-c", EXTENSION, str(extension)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


LOOKED_UP = textwrap.dedent("""\
    import ctypes

    driver, own = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    own.stand_in_not_modelled.restype = ctypes.c_char_p
    print(driver.cuInit(0), driver.cuMulticastBindMem(), own.stand_in_not_modelled().decode())
    """)


def test_a_function_of_the_driver_that_is_looked_up_is_ours_or_refuses(cuda_build):
    """As cuDNN and Triton look it up, in a library that they open by its name."""
    gpu = find_gpu("A100-80GB")
    environment = stand_in_environment(cuda_build, workers_torch(os.environ), gpu, 1, os.environ)

    command = [sys.executable, "-c", LOOKED_UP]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["0", "801", "cuMulticastBindMem"]  # CUDA_ERROR_NOT_SUPPORTED


def test_an_extension_is_answered_by_what_the_stand_in_defines(cuda_build, extension):
    assert load(cuda_build, extension("cusparseSpMM")).stdout.split() == ["0"]


def test_what_torch_does_not_call_and_an_installed_library_has_is_refused_by_name(
    cuda_build, extension, torch_folder
):
    if not list(torch_folder.parent.glob("nvidia/*/lib/libcusparse.so.*")):
        pytest.skip("cuSPARSE is not installed beside torch")

    # CUSPARSE_STATUS_NOT_SUPPORTED
    assert load(cuda_build, extension("cusparseSbsric02")).stdout.split() == ["10", "cusparseSbsric02"]


def test_an_extension_that_calls_what_nobody_has_does_not_load_and_names_it(cuda_build, extension):
    done = load(cuda_build, extension("cusparseOfTomorrow"))

    assert done.returncode == 1
    assert "undefined symbol: cusparseOfTomorrow" in done.stderr
