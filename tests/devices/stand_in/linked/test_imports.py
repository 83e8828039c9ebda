"""What PyTorch's libraries import of NVIDIA's is modelled or refused by name: no call reaches a real one."""

import os
import re
from pathlib import Path

import pytest

from pytest_membudget.devices.stand_in.compiling import LIBRARY
from pytest_membudget.devices.stand_in.linked.elf_reader import defined_functions, needed_symbols
from pytest_membudget.devices.stand_in.linked.libraries import linked_libraries

#: Functions of NVIDIA's libraries, by how their names begin.
PREFIXES = re.compile(
    r"(__)?(cuda|cublas|cusolver|cusparse|cufft|curand|cudnn|cupti|nvml|nvrtc|nvshmem|nccl|cu[A-Z])"
)

#: cuDNN's real library stays for what takes no handle: descriptors (cudnn_library.c).
STAYS = re.compile(
    r"cudnn((Create|Destroy|Set|Get)\w+Descriptor(Ex|_v\d)?|SetConvolution(GroupCount|MathType)"
    r"|BackendGetAttribute|GetCudartVersion)$"
)

#: What is refused where PyTorch calls it: GPUDirect storage (torch.cuda.gds), NVSHMEM (symmetric memory),
#: records of a profiler, conditional nodes of graphs (torch.cond in a capture), CUDA's own text of a graph,
#: what NVRTC compiled to PTX and links (the fuser of TorchScript), windows and signals of NCCL's, which take
#: memory of other ranks.
REFUSED = re.compile(
    r"cuFile\w+|nvshmem\w+|cupti\w+"
    r"|cudaGraph(AddNode|ConditionalHandleCreate|NodeGetDependencies|DebugDotPrint)"
    r"|nccl(Comm(MemStats|Resume|Revoke|Suspend|Window\w+)|DevComm\w+|Get\w+Pointer|GroupSimulateEnd|WinGetUserPtr|\w*Signal)"
    r"|cudaLibrary(Get(Global|Kernel|KernelCount|Managed|UnifiedFunction)|Load(Data|FromFile)|Unload)"
    r"|cuLink(AddData_v2|Complete|Create_v2)"
)


@pytest.fixture(scope="module")
def modelled(cuda_build):
    """The functions that the stand-in's library defines."""
    return defined_functions(cuda_build / LIBRARY)


@pytest.fixture(scope="module")
def refused(cuda_build, torch_folder):
    """The functions of the libraries that were written."""
    linked = linked_libraries(torch_folder, cuda_build, os.environ)
    return frozenset().union(*map(defined_functions, linked.paths))


def test_every_function_of_cuda_that_torch_imports_is_modelled_or_known_to_be_refused(modelled, torch_folder):
    imported = {}
    for path in sorted((torch_folder / "lib").glob("*.so")):
        for symbol in needed_symbols(path):
            if PREFIXES.match(symbol.name):
                imported.setdefault(symbol.name, path.name)

    others = {name: library for name, library in imported.items() if name not in modelled}

    assert len(imported) > 500
    assert "libtorch_cuda.so" in imported.values()
    known = [name for name in others if STAYS.match(name) or REFUSED.fullmatch(name)]
    assert {name: others[name] for name in others if name not in known} == {}


#: Imported by libraries of the CUDA builds of 2.11 or 2.13 from PyPI, and by none of 2.15.
EARLIER = {
    "__cudaInitModule", "cublasSgemmStridedBatched",
    "cusolverDnCreateSyevjInfo", "cusolverDnDestroySyevjInfo",
    *(f"cusolverDn{kind}evj{what}" for kind in ("Che", "Zhe", "Dsy", "Ssy") for what in ("", "_bufferSize")),
}  # fmt: skip


def test_what_earlier_versions_import_is_modelled(modelled):
    assert modelled >= EARLIER


@pytest.mark.parametrize("family", ["cuda", "cublas", "cublasLt", "cusolver", "cusparse", "cufft"])
def test_all_that_the_vendors_headers_declare_is_modelled_or_refused(modelled, refused, torch_folder, family):
    """Extensions call what PyTorch does not: the real function would get a handle that is not its own."""
    site, library = torch_folder.parent, "cudart" if family == "cuda" else family
    headers = [path for path in site.glob("nvidia/**/include/*.h") if path.name.startswith(family)]
    found = list(site.glob(f"nvidia/**/lib{library}.so.*"))
    if not headers or not found:
        pytest.skip(f"the headers of {family} are not installed")
    text = "".join(path.read_text(errors="ignore") for path in headers)
    declared = set(re.findall(rf"\b{family}\w+", text))

    public = declared & defined_functions(Path(found[0]))

    assert len(public) > 40
    assert public <= modelled | refused
