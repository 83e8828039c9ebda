/* Modules and their functions, which are loaded, looked at and launched, and never run.

   Source of prototypes and constants: CUDA Driver API 13.2, "Module Management", "Library Management",
   "Execution Control", "Occupancy", "Tensor Map Object Management". */
#include <stdlib.h>
#include <string.h>

#include "contexts.h"
#include "errors.h"
#include "kernel_parameters.h"
#include "launches.h"
#include "memory.h"
#include "tables.h"
#include "unknown.h"

/* A variable of a module is as large as this: its size is written in the module's code, which is not read. */
#define VARIABLE_BYTES MIB

/* CUfunction_attribute */
enum {
    THREADS,
    SHARED,
    CONSTANT,
    LOCAL,
    REGISTER_COUNT,
    PTX_VERSION,
    BINARY_VERSION,
    CACHE_MODE,
    DYNAMIC_SHARED,
    CARVEOUT,
    ATTRIBUTES = 16
};

static int load(void **loaded, const void *image) {
    use_runtime();
    *loaded = new_handle();
    module_loaded(*loaded, image);
    return SUCCESS;
}
/* Others' parameters come behind these. */
ALIAS(cuModuleLoadData, load)
ALIAS(cuModuleLoadDataEx, load)
ALIAS(cuLibraryLoadData, load)

static int find(void **kernel, void *module, const char *name) {
    use_runtime();
    *kernel = new_handle();
    kernel_found(*kernel, module, name);
    return SUCCESS;
}
ALIAS(cuModuleGetFunction, find)
ALIAS(cuLibraryGetKernel, find)

/* What is in a file, or in a fat binary, is not looked at. */
EXPORTED int cuModuleLoad(void **module, const void *code) { return load(module, NULL); }
ALIAS(cuModuleLoadFatBinary, cuModuleLoad)
ALIAS(cuFuncGetModule, cuModuleLoad)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuLibraryUnload)

EXPORTED int cuModuleGetLoadingMode(int *mode) {
    *mode = 2; /* lazy, the default since CUDA 12.2 */
    return SUCCESS;
}

EXPORTED int cuKernelGetFunction(void **function, void *kernel) {
    *function = kernel;
    return SUCCESS;
}
ALIAS(cuLibraryGetModule, cuKernelGetFunction)

static int function_attribute(int *value, int attribute, int device) {
    const struct card *card = card_at(device);
    if (!card || attribute < 0 || attribute >= ATTRIBUTES)
        return INVALID_VALUE;
    switch (attribute) {
    case THREADS: *value = 1024; break;
    case REGISTER_COUNT: *value = REGISTERS; break;
    case PTX_VERSION:
    case BINARY_VERSION: *value = 10 * card->major + card->minor; break;
    case DYNAMIC_SHARED: *value = (int)card->shared_bytes_per_block_optin; break;
    case CARVEOUT: *value = -1; break;
    default: *value = 0; /* static shared, constant and local memory: none */
    }
    return SUCCESS;
}

EXPORTED int cuFuncGetAttribute(int *value, int attribute, void *function) {
    return function_attribute(value, attribute, current_device());
}

EXPORTED int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
    return function_attribute(value, attribute, device);
}

EACH(SUCCEEDS, cuFuncSetAttribute, cuKernelSetAttribute, cuFuncSetCacheConfig, cuFuncLoad)

EXPORTED int cuFuncIsLoaded(int *state, void *function) {
    *state = 1;
    return SUCCESS;
}

EXPORTED int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            void *stream, void **arguments, void **extra) {
    return launch_of_module(function, arguments, stream);
}

EXPORTED int cuLaunchCooperativeKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned block_x, unsigned block_y, unsigned block_z,
                                       unsigned shared_bytes, void *stream, void **arguments) {
    return launch_of_module(function, arguments, stream);
}

/* CUlaunchConfig: grid and block by three words each, shared memory, then the stream at byte 32 */
EXPORTED int cuLaunchKernelEx(const char *config, void *function, void **arguments, void **extra) {
    void *stream;
    memcpy(&stream, config + 32, sizeof stream);
    return launch_of_module(function, arguments, stream);
}

/* Of a kernel that was compiled at run time, here by nobody, and its registers limit the blocks. At the other
   end it has 255 a thread, for which a warp takes 8 Ki of the 64 Ki there are (CUDA C++ Programming Guide 13,
   "Compute Capabilities"). */
EXPORTED int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                         size_t shared_bytes) {
    int warps = (threads + 31) / 32, fewest = warps > 0 && warps < 8 ? 8 / warps : 1;
    *blocks = blocks_per_multiprocessor(threads, shared_bytes);
    if (*blocks > fewest && other_answer(BLOCKS))
        *blocks = fewest;
    return SUCCESS;
}
ALIAS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessor)

EXPORTED int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *function, void *shared_of_block,
                                              size_t shared_bytes, int limit) {
    int threads = limit > 0 && limit < 1024 ? limit : 1024,
        blocks = blocks_per_multiprocessor(threads, shared_bytes);
    *block = threads;
    *grid = (blocks ? blocks : 1) * card_at(current_device())->multiprocessors;
    return SUCCESS;
}

/* Clusters of two blocks at most, one for two multiprocessors: a cautious figure that only tuning looks
   at. */
EXPORTED int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *config) {
    *clusters = card_at(current_device())->multiprocessors / 2;
    return SUCCESS;
}
ALIAS(cudaOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters)

EXPORTED int cuOccupancyMaxPotentialClusterSize(int *blocks, void *function, const void *config) {
    *blocks = 8; /* the largest that is portable (CUDA C++ Programming Guide 13, "Thread Block Clusters") */
    return SUCCESS;
}

/* A variable of a module: its memory is the context's, and not counted. */
EXPORTED int cuModuleGetGlobal_v2(void **address, size_t *bytes, void *module, const char *name) {
    if (bytes)
        *bytes = VARIABLE_BYTES;
    return address ? take_memory(current_device(), VARIABLE_BYTES, 0, POOL_MEMORY, NULL, address) : SUCCESS;
}

/* CUtensorMap is opaque; here it begins with the address, so that a launch's parameters have it. */
#define TENSOR_MAP(name)                                                  \
    EXPORTED int name(void *map, int type, unsigned rank, void *memory) { \
        memset(map, 0, 128);                                              \
        memcpy(map, &memory, sizeof memory);                              \
        return SUCCESS;                                                   \
    }
TENSOR_MAP(cuTensorMapEncodeTiled)
TENSOR_MAP(cuTensorMapEncodeIm2col)
TENSOR_MAP(cuTensorMapEncodeIm2colWide)
