"""Libraries that were written are loaded, and their functions refuse by name."""

import platform
import re
import shutil
import struct
import subprocess

import pytest

from pytest_membudget.devices.stand_in.compiling import LIBRARY
from pytest_membudget.devices.stand_in.linked.elf_reader import defined_functions, read_shared_object
from pytest_membudget.devices.stand_in.linked.elf_writer import written_library
from tests.programs import printed as printed_by

MACHINES = ["x86_64", "aarch64"]
#: With a version, with another, with none.
REFUSING = {"cusparseAxpby": "libcusparse.so.12", "cusparseOld": "libcusparse.so.11", "cusparsePlain": None}
VERSIONS = ["libcusparse.so.12", "libcusparse.so.11"]


def write(folder, machine, needed="/libmembudget_stand_in.so"):
    path = folder / "cusparse.so.12"
    path.write_bytes(written_library(machine, "libcusparse.so.12", str(needed), VERSIONS, REFUSING))
    return path


@pytest.mark.parametrize("machine", MACHINES)
def test_it_has_its_soname_what_it_needs_and_its_functions(tmp_path, machine):
    path = write(tmp_path, machine)

    found = read_shared_object(path)
    assert (found.soname, found.needed) == ("libcusparse.so.12", ("/libmembudget_stand_in.so",))
    assert defined_functions(path) == {*REFUSING, "stand_in_linked"}


@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf (binutils) is not installed")
@pytest.mark.parametrize("machine", MACHINES)
def test_readelf_finds_nothing_wrong(tmp_path, machine):
    command = ["readelf", "-W", "--file-header", "--segments", "--dynamic", "--use-dynamic", "--symbols"]

    done = subprocess.run([*command, write(tmp_path, machine)], capture_output=True, text=True, check=True)

    assert done.stderr == ""
    assert {"x86_64": "X86-64", "aarch64": "AArch64"}[machine] in done.stdout
    assert "cusparseAxpby@@libcusparse.so.12" in done.stdout
    assert "cusparseOld@@libcusparse.so.11" in done.stdout
    assert re.search(r" UND stand_in_refuse$", done.stdout, re.MULTILINE)
    assert re.search(r"GNU_STACK .* RW ", done.stdout), "a stack that can be run would be refused by ld.so"


@pytest.mark.skipif(not shutil.which("objdump"), reason="objdump (binutils) is not installed")
def test_a_function_passes_both_names_on_and_jumps_through_the_slot(tmp_path):
    path = write(tmp_path, "x86_64")
    data = path.read_bytes()

    code = data.index(b"\xf3\x0f\x1e\xfa")
    command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", f"--start-address={code + 24}"]
    done = subprocess.run(
        [*command, f"--stop-address={code + 48}", path], capture_output=True, text=True, check=True
    )

    rows = re.findall(r"(lea|jmp) +\S+ +# 0x([0-9a-f]+)", done.stdout)
    soname, name, slot = (int(target, 16) for _, target in rows)
    assert [instruction for instruction, _ in rows] == ["lea", "lea", "jmp"]
    assert data[soname:].startswith(b"libcusparse.so.12\0")
    assert data[name:].startswith(b"cusparseAxpby\0")
    assert slot % 8 == 0


def signed(number, bits):
    return number - (1 << bits) if number >> (bits - 1) else number


def test_on_aarch64_it_does_the_same(tmp_path):
    """ADR, ADR, LDR (literal), BR: Arm Architecture Reference Manual for A-profile, C6.2."""
    data = write(tmp_path, "aarch64").read_bytes()
    end = data.index((0xD61F0200).to_bytes(4, "little"))  # br x16, of the first function
    start = end - 12 + 16  # the second one

    words = struct.unpack_from("<4I", data, start)

    for word, place, register, text in (
        (words[0], start, 0, b"libcusparse.so.12\0"),
        (words[1], start + 4, 1, b"cusparseAxpby\0"),
    ):
        assert word & 0x9F00001F == 0x10000000 | register  # adr x0, adr x1
        target = place + signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        assert data[target:].startswith(text)
    assert words[2] & 0xFF00001F == 0x58000000 | 16  # ldr x16
    slot = start + 8 + signed(words[2] >> 5 & 0x7FFFF, 19) * 4
    assert slot.to_bytes(8, "little") in data  # the relocation's place
    assert words[3] == 0xD61F0200


CODE = """
import ctypes
OLD = [b'11', b'12']
written, own = ctypes.CDLL({path!r}), ctypes.CDLL(None)
own.stand_in_refused.restype = own.dlvsym.restype = ctypes.c_char_p
own.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
print({printed})
"""


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        # CUSPARSE_STATUS_NOT_SUPPORTED
        (
            "written.cusparseAxpby(1, 2), written.cusparsePlain(), own.stand_in_refused().decode()",
            ["10", "10", "cusparseAxpby", "cusparsePlain"],
        ),
        # versions are told apart
        (
            "*(own.dlvsym(written._handle, b'cusparseOld', b'libcusparse.so.' + n) is None for n in OLD)",
            ["False", "True"],
        ),
        # cuDNN asks cuBLASLt's library for its functions by dlsym, and ends the process where it finds none
        ("written.cublasLtMatmul() == 0", ["True"]),
    ],
)
def test_a_function_refuses_by_name_and_others_are_found_in_the_stand_in(
    stand_in_libraries, tmp_path, printed, expected
):
    library = stand_in_libraries / LIBRARY
    path = write(tmp_path, platform.machine(), library)
    code = CODE.format(path=str(path), printed=printed)

    assert printed_by("-c", code, env={"LD_PRELOAD": str(library)}).split() == expected


def test_a_library_that_its_instructions_cannot_reach_across_is_refused():
    many = {f"function_{number}": None for number in range(60_000)}

    with pytest.raises(ValueError, match="too large for its own instructions"):
        written_library("aarch64", "libcusolver.so.12", "/library.so", [], many)
    assert len(written_library("x86_64", "libcusolver.so.12", "/library.so", [], many)) > 2**20


def test_another_machine_is_no_machine_to_write_for():
    with pytest.raises(KeyError):
        written_library("riscv64", "libcuda.so.1", "/library.so", [], {})
