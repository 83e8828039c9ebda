/* The driver's virtual memory: reserved addresses, memory without addresses, and one mapped to the other.
   PyTorch's expandable segments are made of it (ExpandableSegment, CUDACachingAllocator.cpp).

   Source of prototypes, offsets and constants: CUDA Driver API 13.2, "Virtual Memory Management". */
#include <stdlib.h>
#include <string.h>

#include "contexts.h"
#include "errors.h"
#include "memory.h"
#include "refuse.h"

/* CU_MEM_ALLOC_GRANULARITY of all cards: 2 MiB */
#define GRANULARITY_BYTES (2 * MIB)
/* CUmemAllocationProp: type, requested handle types, location type, location id, ... */
enum { PROPERTIES_BYTES = 32, LOCATION_ID_AT = 12 };

/* Memory without an address. It is given back when its last holder, a handle or a mapping, lets go. */
struct physical {
    size_t bytes;
    int device, holders;
    char properties[PROPERTIES_BYTES];
};

static struct ranges mappings;

static void let_go(struct physical *physical) {
    if (--physical->holders)
        return;
    give_back_capacity(physical->device, physical->bytes);
    free(physical);
}

EXPORTED int cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
    *bytes = GRANULARITY_BYTES;
    return SUCCESS;
}

EXPORTED int cuMemAddressReserve(void **address, size_t bytes, size_t alignment, uint64_t wanted,
                                 unsigned long long flags) {
    if (!bytes || bytes % GRANULARITY_BYTES || alignment > GRANULARITY_BYTES)
        return INVALID_VALUE;
    return take_memory(current_device(), bytes, 0, ADDRESSES, NULL, address);
}

EXPORTED int cuMemAddressFree(void *address, size_t bytes) { return release_memory(address, NULL); }

EXPORTED int cuMemCreate(void **handle, size_t bytes, const char *properties, unsigned long long flags) {
    struct physical *created = calloc(1, sizeof *created);
    if (!created || !bytes || bytes % GRANULARITY_BYTES) {
        free(created);
        return INVALID_VALUE;
    }
    memcpy(created->properties, properties, PROPERTIES_BYTES);
    memcpy(&created->device, properties + LOCATION_ID_AT, sizeof created->device);
    created->bytes = bytes;
    created->holders = 1;
    lock_state();
    int error = take_capacity(created->device, bytes);
    unlock_state();
    if (error) {
        free(created);
        return error;
    }
    *handle = created;
    return SUCCESS;
}

EXPORTED int cuMemRelease(void *handle) {
    if (!handle)
        return INVALID_VALUE;
    lock_state();
    let_go(handle);
    unlock_state();
    return SUCCESS;
}

EXPORTED int cuMemMap(void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags) {
    struct physical *physical = handle;
    struct range reserved;
    struct range range = {.start = (uintptr_t)address, .bytes = bytes, .owner = physical};
    if (!physical || offset > physical->bytes || bytes > physical->bytes - offset)
        return INVALID_VALUE;
    if (!find_memory(address, &reserved) || reserved.kind != ADDRESSES ||
        range.start + bytes > reserved.start + reserved.bytes)
        return INVALID_VALUE;
    range.device = physical->device;
    lock_state();
    struct range *next = range_after(&mappings, range.start);
    int free_there = !next || next->start >= range.start + bytes;
    int added = free_there && add_range(&mappings, range);
    if (added) {
        physical->holders++;
        set_memory_device(range.start, physical->device);
    }
    unlock_state();
    return added ? SUCCESS : INVALID_VALUE;
}

/* Mappings are taken away whole, as the driver demands. What was written there is forgotten: PyTorch never
   maps the same memory again after it. */
EXPORTED int cuMemUnmap(void *address, size_t bytes) {
    uintptr_t start = (uintptr_t)address, end = start + bytes;
    int error = INVALID_VALUE;
    lock_state();
    for (struct range *range = range_after(&mappings, start); range && range->start < end;
         range = range_after(&mappings, start)) {
        if (range->start < start || range->start + range->bytes > end) {
            error = INVALID_VALUE;
            break;
        }
        let_go(range->owner);
        forget_contents(range->start, range->bytes);
        remove_range(&mappings, range);
        error = SUCCESS;
    }
    unlock_state();
    return error;
}

EXPORTED int cuMemSetAccess(void *address, size_t bytes, const void *descriptions, size_t count) {
    lock_state();
    int mapped = find_range(&mappings, (uintptr_t)address) != NULL;
    unlock_state();
    return mapped ? SUCCESS : INVALID_VALUE;
}

EXPORTED int cuMemGetAllocationPropertiesFromHandle(char *properties, void *handle) {
    if (!handle)
        return INVALID_VALUE;
    memcpy(properties, ((struct physical *)handle)->properties, PROPERTIES_BYTES);
    return SUCCESS;
}

EXPORTED int cuMemRetainAllocationHandle(void **handle, void *address) {
    lock_state();
    struct range *range = find_range(&mappings, (uintptr_t)address);
    *handle = range ? range->owner : NULL;
    if (range)
        ((struct physical *)range->owner)->holders++;
    unlock_state();
    return *handle ? SUCCESS : INVALID_VALUE;
}

/* Other processes cannot be given a memory that is not there. */
REFUSED("libcuda", cuMemExportToShareableHandle)
REFUSED("libcuda", cuMemImportFromShareableHandle)
