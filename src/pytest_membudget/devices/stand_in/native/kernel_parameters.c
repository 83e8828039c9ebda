/* What a kernel of a loaded module takes, and so which memory it may write to: Triton's and a compiler's
   kernels get the addresses of tensors. Of one that is compiled at run time the text says it (kernel_texts.c).

   A cubin is an ELF file (System V ABI, "Object Files") whose section .nv.info.<kernel> describes its
   parameters. Layout of that section: as ptxas 12.8 to 13.2 writes it and cuobjdump -elf shows it: a byte of
   format, one of attribute, two of size or value; KPARAM_INFO has an index, the parameter's ordinal and
   offset, and its size in the upper 14 bits of the last word; CBANK_PARAM_SIZE has the bytes of all of them.
   Where the two do not agree, another layout is in use, and nothing is known. */
#include "kernel_parameters.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "followed.h"
#include "kernel_texts.h"
#include "memory.h"
#include "stand_in.h"

enum {
    MOST_PARAMETERS = 256,
    VALUE_FORMAT = 3,
    SIZED_FORMAT = 4,
    PARAMETER_INFO = 0x17,
    PARAMETER_INFO_BYTES = 12,
    ALL_PARAMETERS_BYTES = 0x19
};
#define SECTION_PREFIX ".nv.info."

struct module {
    void *handle;
    const Elf64_Ehdr *image; /* a copy; NULL where it is no ELF file */
    const char *text;        /* the same of a program's text */
    struct module *next;
};
struct kernel {
    void *handle;
    int is_described;
    unsigned short sizes[MOST_PARAMETERS]; /* in bytes; 0 behind the last */
    struct kernel *next;
};
static struct module *modules;
static struct kernel *kernels;

static const Elf64_Shdr *sections_of(const Elf64_Ehdr *image) {
    return (const Elf64_Shdr *)((const char *)image + image->e_shoff);
}

static size_t image_bytes(const Elf64_Ehdr *image) {
    size_t end = image->e_shoff + (size_t)image->e_shnum * sizeof(Elf64_Shdr);
    for (int index = 0; index < image->e_shnum; index++) {
        const Elf64_Shdr *section = sections_of(image) + index;
        size_t section_end = section->sh_offset + (section->sh_type == SHT_NOBITS ? 0 : section->sh_size);
        if (section_end > end)
            end = section_end;
    }
    return end;
}

void module_loaded(void *handle, const void *image) {
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return;
    module->handle = handle;
    if (image && !memcmp(image, ELFMAG, SELFMAG) &&
        ((const Elf64_Ehdr *)image)->e_shentsize == sizeof(Elf64_Shdr)) {
        size_t bytes = image_bytes(image);
        void *copy = malloc(bytes);
        module->image = copy ? memcpy(copy, image, bytes) : NULL;
    } else if (image && !strncmp(image, PROGRAM_TEXT, strlen(PROGRAM_TEXT)))
        module->text = strdup((const char *)image + strlen(PROGRAM_TEXT));
    lock_state();
    module->next = modules;
    modules = module;
    unlock_state();
}

/* The end of the parameter that is described at `at`. */
static int read_parameter(struct kernel *kernel, const unsigned char *at) {
    unsigned short ordinal, offset;
    uint32_t word;
    memcpy(&ordinal, at + 8, sizeof ordinal);
    memcpy(&offset, at + 10, sizeof offset);
    memcpy(&word, at + 12, sizeof word);
    if (ordinal < MOST_PARAMETERS)
        kernel->sizes[ordinal] = (unsigned short)(word >> 18);
    return offset + (int)(word >> 18);
}

static void read_parameters(struct kernel *kernel, const unsigned char *at, const unsigned char *end) {
    int all_bytes = -1, described_bytes = 0;
    while (at + 4 <= end) {
        unsigned short size;
        memcpy(&size, at + 2, sizeof size);
        if (at[0] == VALUE_FORMAT && at[1] == ALL_PARAMETERS_BYTES)
            all_bytes = size;
        if (at[0] == SIZED_FORMAT && at[1] == PARAMETER_INFO && size == PARAMETER_INFO_BYTES) {
            int parameter_end = read_parameter(kernel, at);
            if (parameter_end > described_bytes)
                described_bytes = parameter_end;
        }
        at += 4 + (at[0] == SIZED_FORMAT ? size : 0);
    }
    kernel->is_described = described_bytes == all_bytes && !kernel->sizes[MOST_PARAMETERS - 1];
}

static void describe(struct kernel *kernel, const Elf64_Ehdr *image, const char *name) {
    const Elf64_Shdr *sections = sections_of(image);
    const char *names = (const char *)image + sections[image->e_shstrndx].sh_offset;
    for (int index = 0; index < image->e_shnum; index++) {
        const char *own = names + sections[index].sh_name;
        if (strncmp(own, SECTION_PREFIX, strlen(SECTION_PREFIX)) ||
            strcmp(own + strlen(SECTION_PREFIX), name))
            continue;
        const unsigned char *start = (const unsigned char *)image + sections[index].sh_offset;
        read_parameters(kernel, start, start + sections[index].sh_size);
    }
}

void kernel_found(void *handle, void *module, const char *name) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return;
    kernel->handle = handle;
    lock_state();
    for (const struct module *one = modules; one; one = one->next) {
        if (one->handle == module && one->image)
            describe(kernel, one->image, name);
        if (one->handle == module && one->text)
            kernel->is_described =
                sizes_of_parameters(one->text, name, kernel->sizes, MOST_PARAMETERS - 1) >= 0;
    }
    kernel->next = kernels;
    kernels = kernel;
    unlock_state();
}

/* Whether what begins at `address` is itself an address on a card: a kernel may follow it to anywhere. */
static int leads_on(uintptr_t address) {
    void *first;
    if (address % sizeof first)
        return 0;
    memcpy(&first, (const void *)address, sizeof first);
    return is_on_card(first);
}

static int writes_by(const char *argument, size_t bytes) {
    for (size_t offset = 0; offset + sizeof(uintptr_t) <= bytes; offset += sizeof(uintptr_t)) {
        uintptr_t address;
        memcpy(&address, argument + offset, sizeof address);
        if (!is_on_card((const void *)address))
            continue;
        if (leads_on(address))
            return 0;
        memory_written(address);
    }
    return 1;
}

int kernel_writes(void *handle, void *const *arguments) {
    int is_known = 0;
    lock_state();
    const struct kernel *kernel = kernels;
    while (kernel && kernel->handle != handle)
        kernel = kernel->next;
    if (kernel && kernel->is_described && arguments) {
        is_known = 1;
        for (int index = 0; index < MOST_PARAMETERS && kernel->sizes[index] && is_known; index++)
            is_known = writes_by(arguments[index], kernel->sizes[index]);
    }
    unlock_state();
    return is_known;
}
