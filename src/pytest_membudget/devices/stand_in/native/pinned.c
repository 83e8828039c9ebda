/* Host memory that a card can reach: without pages until something is written.

   Source of prototypes and constants: CUDA Runtime API and CUDA Driver API 13.2, "Memory Management". */
#define _GNU_SOURCE
#include "contexts.h"
#include "errors.h"
#include "host.h"
#include "memory.h"
#include "tables.h"

static struct ranges allocated, registered;

EXPORTED int cuMemAllocHost_v2(void **address, size_t bytes) {
    *address = NULL;
    if (!bytes)
        return SUCCESS;
    void *got = host_pinned(bytes);
    if (!got)
        return OUT_OF_MEMORY;
    lock_state();
    int added = add_range(&allocated, (struct range){.start = (uintptr_t)got, .bytes = bytes});
    unlock_state();
    if (!added) {
        host_unpinned(got);
        return OPERATING_SYSTEM;
    }
    *address = got;
    return SUCCESS;
}
ALIAS(cuMemHostAlloc, cuMemAllocHost_v2) /* flags come last */

static int take_out(struct ranges *ranges, void *address, size_t *bytes) {
    lock_state();
    struct range *range = find_range(ranges, (uintptr_t)address);
    int known = range && range->start == (uintptr_t)address;
    if (known) {
        *bytes = range->bytes;
        remove_range(ranges, range);
    }
    unlock_state();
    return known;
}

EXPORTED int cuMemFreeHost(void *address) {
    size_t bytes;
    if (!address)
        return SUCCESS;
    if (!take_out(&allocated, address, &bytes))
        return INVALID_VALUE;
    host_unpinned(address);
    return SUCCESS;
}

int is_pinned(const void *address) {
    lock_state();
    int found = find_range(&allocated, (uintptr_t)address) || find_range(&registered, (uintptr_t)address);
    unlock_state();
    return found;
}

EXPORTED int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    lock_state();
    struct range *next = range_after(&registered, (uintptr_t)address);
    int taken = next && next->start < (uintptr_t)address + bytes;
    int added = !taken && bytes &&
                add_range(&registered, (struct range){.start = (uintptr_t)address, .bytes = bytes});
    unlock_state();
    if (added)
        host_registered(address, bytes, 1);
    return taken ? HOST_MEMORY_ALREADY_REGISTERED : added ? SUCCESS : INVALID_VALUE;
}

EXPORTED int cuMemHostUnregister(void *address) {
    size_t bytes;
    if (!take_out(&registered, address, &bytes))
        return HOST_MEMORY_NOT_REGISTERED;
    host_registered(address, bytes, 0);
    return SUCCESS;
}

EXPORTED int cudaMallocHost(void **address, size_t bytes) {
    use_runtime();
    return runtime_result(cuMemAllocHost_v2(address, bytes));
}
ALIAS(cudaHostAlloc, cudaMallocHost) /* flags come last */

RUNTIME(cudaFreeHost, cuMemFreeHost, (void *address), address)

EXPORTED int cudaHostRegister(void *address, size_t bytes, unsigned flags) {
    use_runtime();
    return runtime_result(cuMemHostRegister_v2(address, bytes, flags));
}

RUNTIME(cudaHostUnregister, cuMemHostUnregister, (void *address), address)

EXPORTED int cuMemHostGetDevicePointer_v2(void **device_pointer, void *address, unsigned flags) {
    *device_pointer = address;
    return is_pinned(address) ? SUCCESS : INVALID_VALUE;
}
RUNTIME(cudaHostGetDevicePointer, cuMemHostGetDevicePointer_v2,
        (void **device_pointer, void *address, unsigned flags), device_pointer, address, flags)

EXPORTED int cudaHostGetFlags(unsigned *flags, void *address) {
    *flags = 2; /* cudaHostAllocMapped: all of it is, with unified addressing */
    return runtime_result(is_pinned(address) ? SUCCESS : INVALID_VALUE);
}
