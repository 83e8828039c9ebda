/* The runtime's allocation of device and managed memory, and what it says of addresses.

   Source of prototypes, offsets and constants: CUDA Runtime API 12.6 and 13.2, "Memory Management",
   "Unified Addressing". */
#include "contexts.h"
#include "errors.h"
#include "memory.h"
#include "refuse.h"
#include "tables.h"
#include "waiting.h"

/* cudaMemoryType */
enum { UNREGISTERED, HOST, DEVICE, MANAGED };

/* cudaPointerAttributes; CUDA 13 has reserved words after it, which are not touched. */
struct pointer_attributes {
    int type, device;
    void *device_pointer, *host_pointer;
};

EXPORTED int cudaMalloc(void **address, size_t bytes) {
    use_runtime();
    return runtime_result(take_memory(current_device(), bytes, bytes, DEVICE_MEMORY, NULL, address));
}

/* Managed memory may be more than the card has, and is on the host until a kernel touches it: not counted. */
EXPORTED int cudaMallocManaged(void **address, size_t bytes, unsigned flags) {
    use_runtime();
    not_modelled("cudaMallocManaged");
    return runtime_result(take_memory(current_device(), bytes, 0, MANAGED_MEMORY, NULL, address));
}

EXPORTED int cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512; /* rows begin at multiples of the texture alignment */
    return cudaMalloc(address, *pitch * height);
}

EXPORTED int cuMemFree_v2(void *address) { return address ? release_memory(address, NULL) : SUCCESS; }

/* It waits for the whole card (CUDA C++ Programming Guide 13, "Stream-Ordered Memory Allocator"). */
EXPORTED int cudaFree(void *address) {
    use_runtime();
    host_waited_for_device(current_device());
    return runtime_result(cuMemFree_v2(address));
}

EXPORTED int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    use_runtime();
    if (!card_at(current_device()))
        return runtime_result(NO_DEVICE);
    memory_info(current_device(), free_bytes, total_bytes);
    return SUCCESS;
}
ALIAS(cuMemGetInfo_v2, cudaMemGetInfo)

EXPORTED int cudaPointerGetAttributes(struct pointer_attributes *attributes, const void *address) {
    struct range memory;
    *attributes = (struct pointer_attributes){UNREGISTERED, -2, NULL, (void *)address};
    if (find_memory(address, &memory)) {
        int managed = memory.kind == MANAGED_MEMORY;
        *attributes = (struct pointer_attributes){managed ? MANAGED : DEVICE, memory.device, (void *)address,
                                                  managed ? (void *)address : NULL};
    } else if (is_pinned(address))
        *attributes = (struct pointer_attributes){HOST, current_device(), (void *)address, (void *)address};
    return SUCCESS;
}

/* Hints of where managed memory should be; the forms of CUDA 12 and 13 differ in their parameters. */
SUCCEEDS(cudaMemPrefetchAsync)
SUCCEEDS(cudaMemAdvise)

/* A memory of another process is not there; PyTorch then says that it cannot share the tensor. */
#define NOT_SHARED(name) REFUSED("libcudart", name)
EACH(NOT_SHARED, cudaIpcGetMemHandle, cudaIpcOpenMemHandle, cudaIpcCloseMemHandle, cudaIpcGetEventHandle,
     cudaIpcOpenEventHandle)
