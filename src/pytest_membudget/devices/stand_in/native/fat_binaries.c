/* Device code as nvcc puts it into a library, for several architectures: which of them a card would load.

   CUB takes its tuning by what is loaded: the ptxVersion of an empty kernel (PtxVersionUncached,
   cub/util_device.cuh of nvidia-cuda-cccl 13.3.5), and has none for an architecture that the library was not
   compiled for.

   Layout: as the 534 fat binaries of libtorch_cuda.so 2.15 have it, which name 7.5, 8.0, 8.6, 9.0, 10.0 and
   12.0 when read so, the architectures of torch.cuda.get_arch_list(). Prototypes: what nvcc's host code calls
   (nvcc --keep shows it). */
#include "fat_binaries.h"

#include <stdlib.h>
#include <string.h>

enum { WRAPPER_MAGIC = 0x466243b1, BINARY_MAGIC = 0xba55ed50u };
enum { PTX = 1, CUBIN = 2, MOST_ARCHITECTURES = 32 }; /* separate: clang makes the values above unsigned */

struct wrapper {
    int magic, version;
    const char *data;
    void *names;
};

struct header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of the entries that follow */
};

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes, options;
    uint16_t minor, major; /* of the format */
    uint32_t architecture; /* 86 */
};

struct module {
    void *unused[1]; /* a handle is a void ** */
    int count;
    struct {
        int kind, architecture;
    } found[MOST_ARCHITECTURES];
};

struct kernel {
    const void *function;
    const struct module *module;
};

static struct kernel *kernels;
static size_t kernel_count, kernel_room;
static int sorted;
static struct module no_module;

static void read_entries(struct module *module, const char *data) {
    struct header header;
    memcpy(&header, data, sizeof header);
    if (header.magic != BINARY_MAGIC)
        return;
    const char *at = data + header.header_bytes, *end = at + header.bytes;
    while (at + sizeof(struct entry) <= end && module->count < MOST_ARCHITECTURES) {
        struct entry entry;
        memcpy(&entry, at, sizeof entry);
        if (entry.header_bytes < sizeof entry || entry.bytes > (uint64_t)(end - at))
            return;
        module->found[module->count].kind = entry.kind;
        module->found[module->count++].architecture = (int)entry.architecture;
        at += entry.header_bytes + entry.bytes;
    }
}

EXPORTED void **__cudaRegisterFatBinary(void *binary) {
    struct wrapper wrapper;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return no_module.unused;
    memcpy(&wrapper, binary, sizeof wrapper);
    if (wrapper.magic == WRAPPER_MAGIC && wrapper.data)
        read_entries(module, wrapper.data);
    return module->unused;
}

EXPORTED void __cudaRegisterFatBinaryEnd(void **handle) {}

/* What was registered is kept: libraries go when the process goes. */
EXPORTED void __cudaUnregisterFatBinary(void **handle) {}

EXPORTED char __cudaInitModule(void **handle) { return 1; }

EXPORTED void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                     int limit, void *thread, void *block, void *block_size, void *grid_size,
                                     int *warp) {
    lock_state();
    if (kernel_count == kernel_room) {
        size_t room = kernel_room ? 2 * kernel_room : 4096;
        struct kernel *longer = realloc(kernels, room * sizeof *longer);
        if (longer) {
            kernels = longer;
            kernel_room = room;
        }
    }
    if (kernel_count < kernel_room)
        kernels[kernel_count++] = (struct kernel){host, (const struct module *)handle};
    sorted = 0;
    unlock_state();
}

static int compare(const void *one, const void *other) {
    uintptr_t a = (uintptr_t)((const struct kernel *)one)->function;
    uintptr_t b = (uintptr_t)((const struct kernel *)other)->function;
    return (a > b) - (a < b);
}

static const struct module *module_of(const void *function) {
    struct kernel key = {function, NULL}, *found = NULL;
    lock_state();
    if (kernel_count && !sorted)
        qsort(kernels, kernel_count, sizeof *kernels, compare);
    sorted = 1;
    if (kernel_count)
        found = bsearch(&key, kernels, kernel_count, sizeof *kernels, compare);
    const struct module *module = found ? found->module : NULL;
    unlock_state();
    return module;
}

/* Code runs on cards of its major version from its minor one on; without any, PTX of that or an earlier
   version is compiled for the card (CUDA C++ Programming Guide 13, "Binary Compatibility", "PTX
   Compatibility"). */
struct code_versions versions_on(const struct card *card, const void *function) {
    int own = 10 * card->major + card->minor, cubin = 0, ptx = 0;
    const struct module *module = module_of(function);
    for (int index = 0; module && index < module->count; index++) {
        int architecture = module->found[index].architecture;
        if (architecture > own)
            continue;
        if (module->found[index].kind == CUBIN && architecture / 10 == card->major && architecture > cubin)
            cubin = architecture;
        if (module->found[index].kind == PTX && architecture > ptx)
            ptx = architecture;
    }
    if (cubin)
        return (struct code_versions){cubin, cubin};
    return (struct code_versions){ptx ? ptx : own, own};
}
