/* Host memory that a card can reach: without pages until something is written.

   Source of prototypes and constants: CUDA Runtime API and CUDA Driver API 13.2, "Memory Management". */
#define _GNU_SOURCE
#include "contexts.h"
#include "errors.h"
#include "host.h"
#include "memory.h"
#include "tables.h"

static struct ranges allocated, registered;

static int allocate_pinned(void **address, size_t bytes)
{
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
ALIAS(cuMemAllocHost_v2, allocate_pinned)
ALIAS(cuMemHostAlloc, allocate_pinned) /* flags come last */

static int take_out(struct ranges *ranges, void *address, size_t *bytes)
{
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

static int release_pinned(void *address)
{
    size_t bytes;
    if (!address)
        return SUCCESS;
    if (!take_out(&allocated, address, &bytes))
        return INVALID_VALUE;
    host_unpinned(address);
    return SUCCESS;
}
ALIAS(cuMemFreeHost, release_pinned)

int is_pinned(const void *address)
{
    lock_state();
    int found = find_range(&allocated, (uintptr_t)address) || find_range(&registered, (uintptr_t)address);
    unlock_state();
    return found;
}

static int register_memory(void *address, size_t bytes)
{
    lock_state();
    struct range *next = range_after(&registered, (uintptr_t)address);
    int taken = next && next->start < (uintptr_t)address + bytes;
    int added = !taken && bytes && add_range(&registered, (struct range){.start = (uintptr_t)address, .bytes = bytes});
    unlock_state();
    if (added)
        host_registered(address, bytes, 1);
    return taken ? HOST_MEMORY_ALREADY_REGISTERED : added ? SUCCESS : INVALID_VALUE;
}
ALIAS(cuMemHostRegister_v2, register_memory) /* flags come last */

static int unregister_memory(void *address)
{
    size_t bytes;
    if (!take_out(&registered, address, &bytes))
        return HOST_MEMORY_NOT_REGISTERED;
    host_registered(address, bytes, 0);
    return SUCCESS;
}
ALIAS(cuMemHostUnregister, unregister_memory)

EXPORTED int cudaMallocHost(void **address, size_t bytes)
{
    use_runtime();
    return runtime_result(allocate_pinned(address, bytes));
}
ALIAS(cudaHostAlloc, cudaMallocHost) /* flags come last */

EXPORTED int cudaFreeHost(void *address)
{
    return runtime_result(release_pinned(address));
}

EXPORTED int cudaHostRegister(void *address, size_t bytes, unsigned flags)
{
    use_runtime();
    return runtime_result(register_memory(address, bytes));
}

EXPORTED int cudaHostUnregister(void *address)
{
    return runtime_result(unregister_memory(address));
}

EXPORTED int cudaHostGetDevicePointer(void **device_pointer, void *address, unsigned flags)
{
    *device_pointer = address;
    return runtime_result(is_pinned(address) ? SUCCESS : INVALID_VALUE);
}
ALIAS(cuMemHostGetDevicePointer_v2, cudaHostGetDevicePointer)

EXPORTED int cudaHostGetFlags(unsigned *flags, void *address)
{
    *flags = 2; /* cudaHostAllocMapped: all of it is, with unified addressing */
    return runtime_result(is_pinned(address) ? SUCCESS : INVALID_VALUE);
}
