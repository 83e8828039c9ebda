/* Names of functions by address. PyTorch asks dladdr for each function on the way to an allocation, and the C
   library's looks at all symbols of a library each time: a millisecond where there are 75,000. Here they are
   sorted once, before the processes of tests are forked. The answers are the C library's (glibc 2.36:
   determine_info in elf/dl-addr.c): the last exported symbol to begin that holds the address, and of several the
   first in the order of the library's hash table. Where none does, it is a local one of the library's file, which
   the C library does not name: the functions of PyTorch's allocator are, and what operators call. PyTorch's own
   way to them (TORCH_SYMBOLIZE_MODE=fast) reads the whole files for each snapshot. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stand_in.h"

struct symbol {
    uintptr_t start, end;
    uintptr_t last_end; /* the highest of the symbols up to here */
    uint32_t order;     /* in the hash table */
    uint32_t name;
};

struct symbols {
    const char *names;
    size_t count;
    struct symbol *found;
};

struct table {
    uintptr_t base;
    struct symbols exported, local;
    struct table *next;
};

struct library {
    uintptr_t address;
    uintptr_t base; /* 0 where no library has the address */
    const char *file;
    const ElfW(Dyn) * dynamic;
    unsigned long long removed; /* libraries that were unloaded so far */
};

typedef int (*dladdr_function)(const void *, Dl_info *);

static _Atomic int is_asked;
static struct table *_Atomic tables;
static _Atomic unsigned long long removed;

static dladdr_function c_librarys(void) {
    static dladdr_function known;
    if (!known)
        known = (dladdr_function)dlsym(RTLD_NEXT, "dladdr");
    return known;
}

static int by_start(const void *first, const void *second) {
    const struct symbol *one = first, *other = second;
    if (one->start != other->start)
        return one->start < other->start ? -1 : 1;
    return one->order > other->order ? -1 : 1; /* they are looked at from the end */
}

/* Addresses in a dynamic section, which the loader has made absolute on most machines. */
static uintptr_t dynamic_value(const struct library *library, ElfW(Sxword) tag) {
    for (const ElfW(Dyn) *one = library->dynamic; one->d_tag != DT_NULL; one++)
        if (one->d_tag == tag)
            return one->d_un.d_ptr < library->base ? library->base + one->d_un.d_ptr : one->d_un.d_ptr;
    return 0;
}

static struct symbol symbol_of(const struct library *library, const ElfW(Sym) * symbol, size_t order) {
    uintptr_t start = library->base + symbol->st_value;
    return (struct symbol){start, start + (symbol->st_size ? symbol->st_size : 1), 0, order, symbol->st_name};
}

/* In the order of the hash table (DT_GNU_HASH); `found` is NULL where they are only counted. */
static size_t exported_symbols(const struct library *library, struct symbol *found) {
    const uint32_t *hash = (const uint32_t *)dynamic_value(library, DT_GNU_HASH);
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)dynamic_value(library, DT_SYMTAB);
    if (!hash || !symbols)
        return 0;
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + hash[0];
    size_t count = 0;
    for (uint32_t bucket = 0; bucket < hash[0]; bucket++) {
        uint32_t index = buckets[bucket];
        if (!index)
            continue;
        do {
            const ElfW(Sym) *one = &symbols[index];
            int is_placed = one->st_shndx != SHN_UNDEF && one->st_shndx != SHN_ABS;
            if (!is_placed || ELF64_ST_TYPE(one->st_info) == STT_TLS)
                continue;
            if (found)
                found[count] = symbol_of(library, one, count);
            count++;
        } while (!(chain[index++ - hash[1]] & 1));
    }
    return count;
}

/* The functions of the table of symbols in the library's file, which is at `file`. */
static size_t local_symbols(const struct library *library, const char *file, const ElfW(Shdr) * section,
                            struct symbol *found) {
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)(file + section->sh_offset);
    size_t count = 0;
    for (size_t index = 0; index < section->sh_size / sizeof *symbols; index++) {
        const ElfW(Sym) *one = &symbols[index];
        if (one->st_shndx == SHN_UNDEF || ELF64_ST_BIND(one->st_info) != STB_LOCAL ||
            ELF64_ST_TYPE(one->st_info) != STT_FUNC)
            continue;
        if (found)
            found[count] = symbol_of(library, one, count);
        count++;
    }
    return count;
}

static void sort(struct symbols *symbols) {
    uintptr_t last_end = 0;
    qsort(symbols->found, symbols->count, sizeof *symbols->found, by_start);
    for (struct symbol *one = symbols->found; one < symbols->found + symbols->count; one++) {
        last_end = one->end > last_end ? one->end : last_end;
        one->last_end = last_end;
    }
}

static struct symbols exported_of(const struct library *library) {
    struct symbols symbols = {(const char *)dynamic_value(library, DT_STRTAB),
                              exported_symbols(library, NULL), NULL};
    symbols.found = malloc(symbols.count * sizeof *symbols.found + 1);
    if (!symbols.found)
        return (struct symbols){NULL, 0, NULL};
    exported_symbols(library, symbols.found);
    sort(&symbols);
    return symbols;
}

/* The whole file, which stays mapped; NULL where it cannot be read, or is not such a file. */
static const char *mapped(const char *name, size_t *bytes) {
    struct stat status;
    int descriptor = open(name, O_RDONLY | O_CLOEXEC);
    void *file = MAP_FAILED;
    if (descriptor < 0)
        return NULL;
    if (!fstat(descriptor, &status) && (size_t)status.st_size > sizeof(ElfW(Ehdr)))
        file = mmap(NULL, *bytes = status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    return file == MAP_FAILED ? NULL : file;
}

static struct symbols local_of(const struct library *library) {
    struct symbols symbols = {NULL, 0, NULL};
    size_t bytes;
    const char *file = mapped(library->file, &bytes);
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)file;
    if (!file)
        return symbols;
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(file + header->e_shoff);
    int has_sections = !memcmp(file, ELFMAG, SELFMAG) && header->e_shentsize == sizeof *sections &&
                       header->e_shoff + header->e_shnum * sizeof *sections <= bytes;
    for (int index = 0; has_sections && index < header->e_shnum && !symbols.found; index++) {
        const ElfW(Shdr) *one = &sections[index];
        if (one->sh_type != SHT_SYMTAB || one->sh_offset + one->sh_size > bytes ||
            one->sh_link >= header->e_shnum || sections[one->sh_link].sh_offset > bytes)
            continue;
        symbols.count = local_symbols(library, file, one, NULL);
        symbols.names = file + sections[one->sh_link].sh_offset;
        if (!(symbols.found = malloc(symbols.count * sizeof *symbols.found + 1)))
            break;
        local_symbols(library, file, one, symbols.found);
        sort(&symbols);
    }
    if (!symbols.found) {
        munmap((void *)file, bytes);
        symbols.count = 0;
    }
    return symbols;
}

static struct table *make_table(const struct library *library) {
    struct table *table = malloc(sizeof *table);
    if (!table)
        return NULL;
    *table = (struct table){library->base, exported_of(library), local_of(library), atomic_load(&tables)};
    while (!atomic_compare_exchange_weak(&tables, &table->next, table))
        ;
    return table;
}

/* That of a library that is loaded; NULL without memory. */
static struct table *table_of(const struct library *library) {
    if (atomic_exchange(&removed, library->removed) != library->removed)
        atomic_store(&tables, NULL); /* another may lie there now; who looks at one of them still may */
    for (struct table *table = atomic_load(&tables); table; table = table->next)
        if (table->base == library->base)
            return table;
    return make_table(library);
}

static int has_address(struct dl_phdr_info *info, size_t bytes, void *data) {
    struct library *library = data;
    const ElfW(Dyn) *dynamic = NULL;
    int is_in = 0;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[index];
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + part->p_vaddr);
        else if (part->p_type == PT_LOAD)
            is_in |= library->address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz;
    }
    if (!is_in)
        return 0;
    if (dynamic && info->dlpi_addr && info->dlpi_name && *info->dlpi_name)
        *library =
            (struct library){library->address, info->dlpi_addr, info->dlpi_name, dynamic, info->dlpi_subs};
    return 1;
}

static const struct symbol *symbol_at(const struct symbols *symbols, uintptr_t address) {
    size_t low = 0, high = symbols->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (symbols->found[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- && symbols->found[low].last_end > address)
        if (symbols->found[low].end > address)
            return &symbols->found[low];
    return NULL;
}

EXPORTED int dladdr(const void *address, Dl_info *info) {
    struct library library = {.address = (uintptr_t)address};
    if (atomic_load(&is_asked))
        dl_iterate_phdr(has_address, &library);
    const struct table *table = library.base ? table_of(&library) : NULL;
    if (!table)
        return c_librarys()(address, info);
    const struct symbols *symbols = &table->exported;
    const struct symbol *symbol = symbol_at(symbols, library.address);
    if (!symbol)
        symbol = symbol_at(symbols = &table->local, library.address);
    *info = (Dl_info){.dli_fname = library.file, .dli_fbase = (void *)library.base};
    if (symbol) {
        info->dli_sname = symbols->names + symbol->name;
        info->dli_saddr = (void *)symbol->start;
    }
    return 1;
}

static int see_pytorchs(struct dl_phdr_info *info, size_t bytes, void *data) {
    Dl_info found;
    if (info->dlpi_name && (strstr(info->dlpi_name, "/libtorch_") || strstr(info->dlpi_name, "/libc10")))
        dladdr((void *)(info->dlpi_addr + info->dlpi_phdr[0].p_vaddr), &found);
    return 0;
}

/* Sort the symbols of PyTorch's libraries now, so that children of fork() have them; before, the C library
   answers. */
EXPORTED void stand_in_sort_symbols(void) {
    atomic_store(&is_asked, 1);
    dl_iterate_phdr(see_pytorchs, NULL);
}
