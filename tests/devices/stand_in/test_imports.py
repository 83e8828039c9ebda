"""What PyTorch's libraries import of CUDA's is exported by the stand-in: no call reaches a real one."""

import mmap
import re
import struct
from pathlib import Path

import pytest

#: What the stand-in stands in for. ``cuFile`` is GPUDirect storage: the real library loads without a driver;
#: PyTorch calls its functions only from torch.cuda.gds.
PREFIXES = re.compile(r"(__)?(cuda|cublas|cusolver|cusparse|cufft|curand|cudnn|nvml|cupti|cu(?!File)[A-Z])")

#: cuDNN's real library stays for what takes no handle: descriptors, plans, errors (cudnn_library.c).
STAYS = re.compile(
    r"cudnn((Create|Destroy|Set|Get)\w+Descriptor(Ex|_v\d)?|SetConvolution(GroupCount|MathType)"
    r"|BackendGetAttribute|Get(ErrorString|LastErrorString|Version|CudartVersion|Property))$"
)

SHT_DYNSYM = 11


def dynamic_symbols(path):
    """``(defined, undefined)``: a shared library's dynamic symbols (ELF, 64-bit, little-endian)."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert data[:6] == b"\x7fELF\x02\x01", path
        (table,) = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        # name, type, flags, address, offset, size, link, info, alignment, size of an entry
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * size) for index in range(count)]
        names = {True: set(), False: set()}
        for section in sections:
            if section[1] == SHT_DYNSYM:
                strings = sections[section[6]][4]
                for entry in range(section[4], section[4] + section[5], 24):
                    name, _, _, home = struct.unpack_from("<IBBH", data, entry)
                    start = strings + name
                    names[home != 0].add(data[start : data.find(b"\0", start)].decode())
    return names[True], names[False]


def own_libraries():
    """Where this process's stand-in and torch lie."""
    import torch

    mapped = re.findall(r"/\S+", Path("/proc/self/maps").read_text())
    own = {path for path in mapped if Path(path).name.startswith("libmembudget_stand_in")}
    return sorted(own), str(Path(torch.__file__).parent / "lib")


@pytest.fixture(scope="module")
def exported(cuda_build):
    defined = set()
    for path in Path(cuda_build.library).parent.glob("*.so*"):
        defined |= dynamic_symbols(path)[0]
    return defined


def test_every_function_of_cuda_that_torch_imports_is_exported(exported, stand_in):
    own, libraries = stand_in(own_libraries)
    imported = {}
    for path in sorted(Path(libraries).glob("*.so")):
        for name in dynamic_symbols(path)[1]:
            if PREFIXES.match(name):
                imported.setdefault(name, path.name)

    missing = {name: library for name, library in imported.items() if name not in exported}

    assert own
    assert len(imported) > 500
    assert "libtorch_cuda.so" in imported.values()
    assert {name: library for name, library in missing.items() if not STAYS.match(name)} == {}


#: Imported by libraries of the CUDA builds of 2.11 or 2.13 from PyPI, and by none of 2.15.
EARLIER = [
    "__cudaInitModule",
    "cublasSgemmStridedBatched",
    "cudaGraphDebugDotPrint",
    "cusolverDnCheevj",
    "cusolverDnCheevj_bufferSize",
    "cusolverDnCreateSyevjInfo",
    "cusolverDnDestroySyevjInfo",
    "cusolverDnDsyevj",
    "cusolverDnDsyevj_bufferSize",
    "cusolverDnSsyevj",
    "cusolverDnSsyevj_bufferSize",
    "cusolverDnZheevj",
    "cusolverDnZheevj_bufferSize",
]


@pytest.mark.parametrize("name", EARLIER)
def test_what_earlier_versions_import_is_exported(exported, name):
    assert name in exported


#: Functions of these libraries that take no handle and plan nothing: the real ones answer.
WITHOUT_A_HANDLE = re.compile(
    r"cublas(Lt)?GetCudartVersion|cusolverGet(Property|Version)|cusparseGetProperty|cusparse(Lt)?Logger\w+"
    r"|cufft(Get(Property|Version)|Device\w+|Description\w+)"
)


@pytest.mark.parametrize("family", ["cublas", "cublasLt", "cusolver", "cusparse", "cufft"])
def test_all_that_the_vendors_headers_declare_is_exported(exported, stand_in, family):
    """Extensions call what PyTorch does not: the real function would get a handle that is not its own."""
    site = Path(stand_in(own_libraries)[1]).parent.parent
    headers = [path for path in site.glob("nvidia/**/include/*.h") if path.name.startswith(family)]
    found = list(site.glob(f"nvidia/**/lib{family}.so.*"))
    if not headers or not found:
        pytest.skip(f"the headers of {family} are not installed")
    text = "".join(path.read_text(errors="ignore") for path in headers)
    declared = set(re.findall(rf"\b{family}\w+", text))

    public = declared & dynamic_symbols(found[0])[0]

    assert len(public) > 40
    assert {name for name in public - exported if not WITHOUT_A_HANDLE.fullmatch(name)} == set()
