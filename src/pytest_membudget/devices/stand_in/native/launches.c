/* Kernels: registered, looked at and launched, and never run.

   Source of prototypes and of the structures' offsets: CUDA Runtime API 12.6 and 13.2 ("Execution Control",
   "Occupancy", "Data types"); the functions with two underscores are what nvcc's host code calls
   (nvcc --keep shows it). */
#include "launches.h"

#include <string.h>

#include "captures.h"
#include "contexts.h"
#include "errors.h"
#include "fat_binaries.h"
#include "kernel_parameters.h"
#include "tables.h"

struct dim3 {
    unsigned x, y, z;
};

/* cudaFuncAttributes; reserved words follow, which are not touched. */
struct function_attributes {
    size_t shared_bytes, constant_bytes, local_bytes;
    int threads_per_block, registers, ptx_version, binary_version, cache_mode, dynamic_shared_bytes,
        carveout_percent;
};

/* cudaLaunchConfig_t */
struct launch_config {
    struct dim3 grid, block;
    size_t shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

/* Read by Python, which compares. */
EXPORTED unsigned long long stand_in_launches;

int launch(void *stream) {
    use_runtime();
    note_work(stream);
    __atomic_add_fetch(&stand_in_launches, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

int launch_of_module(void *kernel, void *const *arguments, void *stream) {
    if (!kernel_writes(kernel, arguments))
        return launch(stream);
    use_runtime();
    note_work(stream);
    return SUCCESS;
}

EXPORTED int cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments,
                              size_t shared_bytes, void *stream) {
    return launch(stream);
}
PER_THREAD(cudaLaunchKernel)
ALIAS(__cudaLaunchKernel, cudaLaunchKernel)
ALIAS(__cudaLaunchKernel_ptsz, cudaLaunchKernel)
ALIAS(cudaLaunchCooperativeKernel, cudaLaunchKernel)
ALIAS(cudaLaunchCooperativeKernel_ptsz, cudaLaunchKernel)

EXPORTED int cudaLaunchKernelExC(const struct launch_config *config, const void *function, void **arguments) {
    return launch(config->stream);
}
PER_THREAD(cudaLaunchKernelExC)

static __thread struct {
    struct dim3 grid, block;
    size_t shared_bytes;
    void *stream;
} configuration;

EXPORTED unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared_bytes,
                                              void *stream) {
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared_bytes = shared_bytes;
    configuration.stream = stream;
    return 0;
}

EXPORTED int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared_bytes,
                                        void *stream) {
    *grid = configuration.grid;
    *block = configuration.block;
    *shared_bytes = configuration.shared_bytes;
    memcpy(stream, &configuration.stream, sizeof(void *));
    return SUCCESS;
}

EXPORTED int __cudaGetKernel(void **kernel, const void *function) {
    *kernel = (void *)function;
    return SUCCESS;
}
ALIAS(cudaGetKernel, __cudaGetKernel)
ALIAS(cudaGetFuncBySymbol, __cudaGetKernel)

/* Registers and static shared memory are not known without reading the kernel's code: 32 and none are
   assumed, and as many threads as a block can have. */
EXPORTED int cudaFuncGetAttributes(struct function_attributes *attributes, const void *function) {
    const struct card *card = card_at(current_device());
    use_runtime();
    if (!card)
        return runtime_result(NO_DEVICE);
    memset(attributes, 0, sizeof *attributes);
    attributes->threads_per_block = 1024;
    attributes->registers = REGISTERS;
    struct code_versions versions = versions_on(card, function);
    attributes->ptx_version = versions.ptx;
    attributes->binary_version = versions.binary;
    attributes->dynamic_shared_bytes = (int)card->shared_bytes_per_block_optin;
    attributes->carveout_percent = -1;
    return SUCCESS;
}

EACH(SUCCEEDS, cudaFuncSetAttribute, cudaFuncSetCacheConfig, cudaKernelSetAttributeForDevice)

/* By threads and shared memory; registers (32 a thread) never limit it. Each block takes 1 KiB more of shared
   memory from compute capability 8.0 on (CUDA C++ Programming Guide 13, "Compute Capabilities"). */
int blocks_per_multiprocessor(int threads, size_t shared_bytes) {
    const struct card *card = card_at(current_device());
    if (!card || threads <= 0 || threads > 1024 || shared_bytes > card->shared_bytes_per_block_optin)
        return 0;
    int warps = (threads + 31) / 32, blocks = card->threads_per_multiprocessor / (32 * warps);
    size_t bytes = shared_bytes + (card->major >= 8 ? 1024 : 0);
    if (blocks > card->blocks_per_multiprocessor)
        blocks = card->blocks_per_multiprocessor;
    if (bytes && (size_t)blocks > card->shared_bytes_per_multiprocessor / bytes)
        blocks = (int)(card->shared_bytes_per_multiprocessor / bytes);
    return blocks;
}

EXPORTED int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                           size_t shared_bytes) {
    use_runtime();
    *blocks = blocks_per_multiprocessor(threads, shared_bytes);
    return SUCCESS;
}
/* Flags come last. */
ALIAS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
