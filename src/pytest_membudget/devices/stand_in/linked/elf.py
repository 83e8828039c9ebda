"""Numbers of the ELF format that the reader and the writer share: 64-bit, little-endian.

Sources: System V ABI, "Object Files" and "Dynamic Linking" (gABI 4.1); symbol versions and the GNU hash
table: Linux Standard Base Core 5.0, "Symbol Versioning", and binutils 2.40 (include/elf/common.h).
"""

import struct
from typing import Final

#: Magic number, 64-bit, little-endian, version 1.
IDENTITY: Final = b"\x7fELF\x02\x01\x01"

#: e_ident, e_type, e_machine, e_version, e_entry, e_phoff, e_shoff, e_flags, e_ehsize, e_phentsize, e_phnum,
#: e_shentsize, e_shnum, e_shstrndx
HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
#: p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
SEGMENT: Final = struct.Struct("<IIQQQQQQ")
#: d_tag, d_val
DYNAMIC: Final = struct.Struct("<qQ")
#: st_name, st_info, st_other, st_shndx, st_value, st_size
SYMBOL: Final = struct.Struct("<IBBHQQ")
#: vn_version, vn_cnt, vn_file, vn_aux, vn_next
VERSION_NEED: Final = struct.Struct("<HHIII")
#: vna_hash, vna_flags, vna_other, vna_name, vna_next
NEEDED_VERSION: Final = struct.Struct("<IHHII")
#: vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next; then vda_name, vda_next
VERSION_DEFINITION: Final = struct.Struct("<HHHHIIIII")

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_GNU_STACK: Final = 0x6474E551

DT_NULL: Final = 0
DT_NEEDED: Final = 1
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_RELA: Final = 7
DT_RELASZ: Final = 8
DT_RELAENT: Final = 9
DT_STRSZ: Final = 10
DT_SYMENT: Final = 11
DT_SONAME: Final = 14
DT_RPATH: Final = 15
DT_RUNPATH: Final = 29
DT_GNU_HASH: Final = 0x6FFFFEF5
DT_VERSYM: Final = 0x6FFFFFF0
DT_VERDEF: Final = 0x6FFFFFFC
DT_VERDEFNUM: Final = 0x6FFFFFFD
DT_VERNEED: Final = 0x6FFFFFFE
DT_VERNEEDNUM: Final = 0x6FFFFFFF

STB_GLOBAL: Final = 1
STB_WEAK: Final = 2
STT_FUNC: Final = 2
STT_GNU_IFUNC: Final = 10
SHN_UNDEF: Final = 0
#: In the table of versions: no version, and the bit that hides a symbol from references without one.
VER_NDX_GLOBAL: Final = 1
VERSYM_HIDDEN: Final = 0x8000
VER_FLG_BASE: Final = 1

#: ``e_machine`` by the name that ``platform.machine()`` has.
MACHINES: Final = {"x86_64": 62, "aarch64": 183}
