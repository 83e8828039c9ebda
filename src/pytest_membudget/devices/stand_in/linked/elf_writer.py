"""Writes a shared object whose functions refuse: no compiler, no linker.

Each function passes its library's name and its own to ``stand_in_refuse`` (native/refuse.c) and returns what
that returns. The file has what ld.so looks at and nothing else: one segment to read and run, one to write, a
dynamic section, a hash table. It has no section headers; ``readelf --use-dynamic`` shows it.

Encodings of instructions: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; Arm
Architecture Reference Manual for A-profile, C6.2. The instructions for aarch64 ran in an
emulator, and on no machine.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from struct import Struct, pack
from typing import Final

from . import elf

REFUSE: Final = "stand_in_refuse"
#: Every written library defines it, and no other library does: see native/refuse.c.
MARK: Final = "stand_in_linked"
#: The largest page of the machines: what may be written does not share one with what may be run.
_PAGE_BYTES: Final = 0x10000
_RELOCATION: Final = Struct("<QQq")  # r_offset, r_info, r_addend


@dataclass(frozen=True, slots=True)
class _Instructions:
    """What differs between machines."""

    stub_bytes: int
    relocation: int
    """The number of the relocation that writes a symbol's address."""
    stub: Callable[[int, int, int, int], bytes]
    """A function at an address, which passes two texts on to what the slot points to: all are addresses."""


def _x86_64_stub(at: int, soname: int, name: int, slot: int) -> bytes:
    return b"".join(
        (
            b"\xf3\x0f\x1e\xfa",  # endbr64
            b"\x48\x8d\x3d" + pack("<i", soname - (at + 11)),  # lea rdi, [rip + soname]
            b"\x48\x8d\x35" + pack("<i", name - (at + 18)),  # lea rsi, [rip + name]
            b"\xff\x25" + pack("<i", slot - (at + 24)),  # jmp [rip + slot]
        )
    )


def _aarch64_stub(at: int, soname: int, name: int, slot: int) -> bytes:
    def adr(register: int, place: int, target: int) -> int:
        distance = _within(target - place)
        return 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | register

    load = 0x58000000 | (_within(slot - (at + 8)) >> 2 & 0x7FFFF) << 5 | 16  # ldr x16, slot
    return pack("<4I", adr(0, at, soname), adr(1, at + 4, name), load, 0xD61F0200)  # br x16


def _within(distance: int) -> int:
    """A distance that an instruction of aarch64 has room for: 1 MiB to each side."""
    if not -(2**20) <= distance < 2**20:
        raise ValueError(f"a library of {abs(distance)} bytes is too large for its own instructions")
    return distance


_INSTRUCTIONS: Final = {
    "x86_64": _Instructions(24, 6, _x86_64_stub),  # R_X86_64_GLOB_DAT
    "aarch64": _Instructions(16, 1025, _aarch64_stub),  # R_AARCH64_GLOB_DAT
}


def written_library(
    machine: str, soname: str, needed: str, versions: Iterable[str], refusing: Mapping[str, str | None]
) -> bytes:
    """A shared object for ``machine``, as ``platform.machine()`` names it.

    ``needed``: the path of the library that has ``stand_in_refuse``. Who looks for a function in this library
    finds that one's as well, as dlsym searches what a library needs.

    ``versions``: the symbol versions that it defines. ``refusing``: its functions, each with its version;
    None for one without. Raises ``KeyError`` for another machine.
    """
    return _Writer(machine, soname, needed, tuple(versions), refusing).content()


class _Writer:
    def __init__(
        self,
        machine: str,
        soname: str,
        needed: str,
        versions: tuple[str, ...],
        refusing: Mapping[str, str | None],
    ) -> None:
        self._machine = machine
        self._instructions = _INSTRUCTIONS[machine]
        self._soname = soname
        self._needed = needed
        self._versions = versions
        self._refusing = {MARK: None, **refusing}
        #: the symbols behind the first, which is empty by definition
        self._names = [REFUSE, *self._refusing]
        self._strings, self._places = _string_table([soname, needed, *versions, *self._names])

    def content(self) -> bytes:
        """The file. Addresses are offsets in it; those of the second segment are a page further on."""
        parts = {
            "hash": self._hash_table(),
            "versioned": self._version_indices(),
            "defined": self._version_definitions(),
            "strings": self._strings,
            "slot": bytes(8),
        }
        places = self._layout({name: len(part) for name, part in parts.items()})
        slot = _PAGE_BYTES + places["slot"]
        parts |= {
            "symbols": self._symbols(places["code"]),
            "relocations": _RELOCATION.pack(slot, 1 << 32 | self._instructions.relocation, 0),
            "code": self._code(places["code"], places["strings"], slot),
            "dynamic": self._dynamic(places),
        }
        file = bytearray(places["dynamic"] + len(parts["dynamic"]))
        for name, part in parts.items():
            file[places[name] : places[name] + len(part)] = part
        head = self._head(places["slot"], len(file))
        file[: len(head)] = head
        return bytes(file)

    def _layout(self, sizes: dict[str, int]) -> dict[str, int]:
        """Where each part begins; ``slot`` and ``dynamic`` are the second segment."""
        sizes |= {
            "symbols": (1 + len(self._names)) * elf.SYMBOL.size,
            "relocations": _RELOCATION.size,
            "code": len(self._refusing) * self._instructions.stub_bytes,
        }
        places = {}
        end = elf.HEADER.size + 4 * elf.SEGMENT.size
        for name in ("hash", "symbols", "versioned", "defined", "strings", "relocations", "code", "slot"):
            places[name] = end + -end % 16
            end = places[name] + sizes[name]
        places["dynamic"] = end
        return places

    def _head(self, slot: int, size: int) -> bytes:
        start = elf.HEADER.size
        identity = elf.IDENTITY.ljust(16, b"\0")
        machine = elf.MACHINES[self._machine]
        header = elf.HEADER.pack(
            identity, 3, machine, 1, 0, start, 0, 0, start, elf.SEGMENT.size, 4, 0, 0, 0
        )  # 3: ET_DYN, a shared object
        rest, dynamic = size - slot, size - slot - 8
        to_write, of_dynamic = _PAGE_BYTES + slot, _PAGE_BYTES + slot + 8
        return b"".join(
            (
                header,
                elf.SEGMENT.pack(elf.PT_LOAD, 5, 0, 0, 0, slot, slot, _PAGE_BYTES),
                elf.SEGMENT.pack(elf.PT_LOAD, 6, slot, to_write, to_write, rest, rest, _PAGE_BYTES),
                elf.SEGMENT.pack(elf.PT_DYNAMIC, 6, slot + 8, of_dynamic, of_dynamic, dynamic, dynamic, 8),
                # without this ld.so wants a stack that can be run
                elf.SEGMENT.pack(elf.PT_GNU_STACK, 6, 0, 0, 0, 0, 0, 16),
            )
        )

    def _dynamic(self, places: Mapping[str, int]) -> bytes:
        entries = [
            (elf.DT_NEEDED, self._places[self._needed]),
            (elf.DT_SONAME, self._places[self._soname]),
            (elf.DT_HASH, places["hash"]),
            (elf.DT_STRTAB, places["strings"]),
            (elf.DT_STRSZ, len(self._strings)),
            (elf.DT_SYMTAB, places["symbols"]),
            (elf.DT_SYMENT, elf.SYMBOL.size),
            (elf.DT_RELA, places["relocations"]),
            (elf.DT_RELASZ, _RELOCATION.size),
            (elf.DT_RELAENT, _RELOCATION.size),
        ]
        if self._versions:
            entries += [
                (elf.DT_VERSYM, places["versioned"]),
                (elf.DT_VERDEF, places["defined"]),
                (elf.DT_VERDEFNUM, 1 + len(self._versions)),
            ]
        return b"".join(elf.DYNAMIC.pack(tag, value) for tag, value in [*entries, (elf.DT_NULL, 0)])

    def _symbols(self, code: int) -> bytes:
        size = self._instructions.stub_bytes
        function = elf.STB_GLOBAL << 4 | elf.STT_FUNC
        symbols = [bytes(elf.SYMBOL.size), elf.SYMBOL.pack(self._places[REFUSE], function, 0, 0, 0, 0)]
        for index, name in enumerate(self._refusing):
            # of the section only that there is one: 1
            symbols.append(elf.SYMBOL.pack(self._places[name], function, 0, 1, code + index * size, size))
        return b"".join(symbols)

    def _code(self, code: int, strings: int, slot: int) -> bytes:
        size = self._instructions.stub_bytes
        soname = strings + self._places[self._soname]
        return b"".join(
            self._instructions.stub(code + index * size, soname, strings + self._places[name], slot)
            for index, name in enumerate(self._refusing)
        )

    def _hash_table(self) -> bytes:
        """The hash table of the System V ABI: buckets, each the first of a chain of symbols."""
        count = 1 + len(self._names)
        buckets, chains = [0] * count, [0] * count
        for index, name in enumerate(self._names, 1):
            bucket = _hash(name) % count
            chains[index], buckets[bucket] = buckets[bucket], index
        return pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)

    def _version_indices(self) -> bytes:
        """Of each symbol, the number of its version: 0 of the first and of what is not defined here."""
        if not self._versions:
            return b""
        of_version = {version: index for index, version in enumerate(self._versions, 2)}
        indices = (
            of_version[version] if version is not None else elf.VER_NDX_GLOBAL
            for version in self._refusing.values()
        )
        return pack(f"<{2 + len(self._refusing)}H", 0, 0, *indices)

    def _version_definitions(self) -> bytes:
        if not self._versions:
            return b""
        size = elf.VERSION_DEFINITION.size
        names = [self._soname, *self._versions]  # the first is the file's own
        return b"".join(
            elf.VERSION_DEFINITION.pack(
                1,
                elf.VER_FLG_BASE if index == 1 else 0,
                index,
                1,
                _hash(name),
                size - 8,  # behind these come the name's place and that of no further name
                size if index < len(names) else 0,
                self._places[name],
                0,
            )
            for index, name in enumerate(names, 1)
        )


def _string_table(names: Iterable[str]) -> tuple[bytes, dict[str, int]]:
    table, places = bytearray(b"\0"), {}
    for name in names:
        if name not in places:
            places[name] = len(table)
            table += name.encode() + b"\0"
    return bytes(table), places


def _hash(name: str) -> int:
    """The hash function of the System V ABI, "Dynamic Linking"."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
