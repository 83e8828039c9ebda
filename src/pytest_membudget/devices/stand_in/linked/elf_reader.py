"""What a shared object needs and defines, by its dynamic section: the file is mapped, whatever its size."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import Struct, unpack_from
from struct import error as TooShort
from typing import Final

from . import elf

_WORD: Final = Struct("<I")


class NotSharedObject(ValueError):  # noqa: N818 - what the file is
    """The file is no ELF shared object of 64-bit little-endian numbers."""


@dataclass(frozen=True, slots=True)
class NeededSymbol:
    """A symbol that a library needs and does not define."""

    name: str
    version: str | None = None
    """The symbol's version, if the reference names one."""
    library: str | None = None
    """The soname of the library that had this version when the reference was linked."""


@dataclass(frozen=True, slots=True)
class SharedObject:
    """The dynamic section of a shared object."""

    soname: str | None
    needed: tuple[str, ...]
    """Sonames that it needs, in order."""
    search_path: tuple[str, ...]
    """Folders of its DT_RPATH or DT_RUNPATH, as written: ``$ORIGIN`` is not replaced."""
    needed_versions: Mapping[str, tuple[str, ...]]
    """Versions of symbols that it needs, by the soname of the library that must define them."""


def read_shared_object(path: Path) -> SharedObject:
    """What the library at ``path`` needs. Raises ``NotSharedObject`` or ``OSError``."""
    with _reader_of(path) as reader:
        return reader.shared_object()


def needed_symbols(path: Path) -> tuple[NeededSymbol, ...]:
    """The symbols that the library at ``path`` needs, without weak ones, which may stay undefined.

    Raises as ``read_shared_object``.
    """
    with _reader_of(path) as reader:
        return tuple(reader.needed_symbols())


def defined_functions(path: Path) -> frozenset[str]:
    """The functions that the library at ``path`` exports. Raises as ``read_shared_object``."""
    with _reader_of(path) as reader:
        return reader.defined_functions()


@contextmanager
def _reader_of(path: Path) -> Iterator[_Reader]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[: len(elf.IDENTITY)] != elf.IDENTITY:
                raise NotSharedObject("it does not begin as an ELF file of 64-bit little-endian numbers")
            yield _Reader(data)
    # a ValueError where it is empty, the others where it is cut short
    except (ValueError, TooShort, KeyError, IndexError) as error:
        raise NotSharedObject(f"{path} is no shared object: {error}") from None


class _Reader:
    """The tables of one file, found through its dynamic section as ld.so finds them."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data

    def shared_object(self) -> SharedObject:
        names = self._values(elf.DT_SONAME)
        paths = self._values(elf.DT_RUNPATH) or self._values(elf.DT_RPATH)
        versions: dict[str, list[str]] = {}
        for library, version in self._versions.values():
            versions.setdefault(library, []).append(version)
        return SharedObject(
            soname=self._text(names[0]) if names else None,
            needed=tuple(self._text(name) for name in self._values(elf.DT_NEEDED)),
            search_path=tuple(part for path in paths for part in self._text(path).split(":") if part),
            needed_versions={library: tuple(found) for library, found in versions.items()},
        )

    def defined_functions(self) -> frozenset[str]:
        return frozenset(
            self._text(name)
            for name, info, _, section, _, _ in self._symbols()
            if section != elf.SHN_UNDEF
            and info >> 4 in (elf.STB_GLOBAL, elf.STB_WEAK)
            and info & 0xF in (elf.STT_FUNC, elf.STT_GNU_IFUNC)
        )

    def needed_symbols(self) -> Iterator[NeededSymbol]:
        indices = self._dynamic.get(elf.DT_VERSYM)
        start = self._offset(indices[0]) if indices else None
        for place, (name, info, _, section, _, _) in enumerate(self._symbols()):
            if section != elf.SHN_UNDEF or info >> 4 != elf.STB_GLOBAL:
                continue
            index = unpack_from("<H", self._data, start + 2 * place)[0] if start is not None else 0
            library, version = self._versions.get(index & ~elf.VERSYM_HIDDEN, (None, None))
            yield NeededSymbol(self._text(name), version, library)

    def _symbols(self) -> Iterator[tuple[int, ...]]:
        start = self._offset(self._dynamic[elf.DT_SYMTAB][0])
        with memoryview(self._data) as view, view[start : start + self._count * elf.SYMBOL.size] as table:
            yield from elf.SYMBOL.iter_unpack(table)

    @cached_property
    def _count(self) -> int:
        """How many symbols there are: only the hash tables say it."""
        if elf.DT_HASH in self._dynamic:
            return int(_WORD.unpack_from(self._data, self._offset(self._dynamic[elf.DT_HASH][0]) + 4)[0])
        start = self._offset(self._dynamic[elf.DT_GNU_HASH][0])
        buckets, first, filter_words, _ = unpack_from("<4I", self._data, start)
        chains = start + 16 + 8 * filter_words + 4 * buckets
        last = max(unpack_from(f"<{buckets}I", self._data, start + 16 + 8 * filter_words), default=0)
        if last < first:
            return int(first)
        while not _WORD.unpack_from(self._data, chains + 4 * (last - first))[0] & 1:
            last += 1
        return int(last) + 1

    @cached_property
    def _versions(self) -> dict[int, tuple[str, str]]:
        """``(library, version)`` by the number that the table of versions has for it."""
        found: dict[int, tuple[str, str]] = {}
        starts = self._dynamic.get(elf.DT_VERNEED)
        need = self._offset(starts[0]) if starts else 0
        for _ in range(self._dynamic.get(elf.DT_VERNEEDNUM, [0])[0]):
            _, count, library, first, following = elf.VERSION_NEED.unpack_from(self._data, need)
            one = need + first
            for _ in range(count):
                _, _, index, name, next_one = elf.NEEDED_VERSION.unpack_from(self._data, one)
                found[index] = (self._text(library), self._text(name))
                one += next_one
            need += following
        return found

    @cached_property
    def _dynamic(self) -> dict[int, list[int]]:
        """The values of each tag, in order."""
        found: dict[int, list[int]] = {}
        for kind, _, offset, _, _, size, _, _ in self._segments:
            if kind == elf.PT_DYNAMIC:
                for tag, value in elf.DYNAMIC.iter_unpack(self._data[offset : offset + size]):
                    if tag == elf.DT_NULL:
                        break
                    found.setdefault(tag, []).append(value)
        return found

    def _values(self, tag: int) -> Sequence[int]:
        return self._dynamic.get(tag, ())

    @cached_property
    def _segments(self) -> list[tuple[int, ...]]:
        header = elf.HEADER.unpack_from(self._data)
        start, size, count = header[5], header[9], header[10]
        return [elf.SEGMENT.unpack_from(self._data, start + size * index) for index in range(count)]

    def _offset(self, address: int) -> int:
        for kind, _, offset, start, _, size, _, _ in self._segments:
            if kind == elf.PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise KeyError(f"no segment has the address {address:#x}")

    @cached_property
    def _strings(self) -> int:
        return self._offset(self._dynamic[elf.DT_STRTAB][0])

    def _text(self, place: int) -> str:
        start = self._strings + place
        return self._data[start : self._data.find(b"\0", start)].decode()
