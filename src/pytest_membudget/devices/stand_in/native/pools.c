/* Pools of stream-ordered allocations (cudaMallocAsync): what is in use is exact; what a pool keeps reserved
   beyond it is the driver's own affair, and is taken to be nothing.

   Source of prototypes and constants: CUDA Runtime API 13.2, "Stream Ordered Memory Allocator". */
#include <stdlib.h>
#include <string.h>

#include "captures.h"
#include "contexts.h"
#include "errors.h"
#include "memory.h"
#include "tables.h"

/* cudaMemPoolAttr */
enum { RELEASE_THRESHOLD = 4, RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH };

struct pool {
    int device;
    uint64_t threshold_bytes, used_bytes, high_bytes;
    int settings[4];
};
static struct pool defaults[MOST_CARDS], *current[MOST_CARDS];

static struct pool *default_pool(int device) {
    if (!card_at(device))
        return NULL;
    defaults[device].device = device;
    return &defaults[device];
}

static struct pool *pool_of(int device) {
    return card_at(device) && current[device] ? current[device] : default_pool(device);
}

static int allocate_from_pool(struct pool *pool, size_t bytes, void **address) {
    size_t rounded = (bytes + 511) / 512 * 512; /* addresses are aligned to 512 bytes */
    int error = pool ? take_memory(pool->device, bytes, rounded, POOL_MEMORY, pool, address) : INVALID_VALUE;
    if (error)
        return error;
    lock_state();
    pool->used_bytes += rounded;
    if (pool->used_bytes > pool->high_bytes)
        pool->high_bytes = pool->used_bytes;
    unlock_state();
    return SUCCESS;
}

static int release_to_pool(void *address) {
    struct range memory;
    int error = address ? release_memory(address, &memory) : SUCCESS;
    if (error || !address || memory.kind != POOL_MEMORY)
        return error;
    lock_state();
    ((struct pool *)memory.owner)->used_bytes -= memory.counted_bytes;
    unlock_state();
    return SUCCESS;
}

EXPORTED int cudaMallocFromPoolAsync(void **address, size_t bytes, void *pool, void *stream) {
    use_runtime();
    note_work(stream);
    return runtime_result(allocate_from_pool(pool, bytes, address));
}
PER_THREAD(cudaMallocFromPoolAsync)

EXPORTED int cuMemAllocAsync(void **address, size_t bytes, void *stream) {
    use_runtime();
    note_work(stream);
    return allocate_from_pool(pool_of(current_device()), bytes, address);
}
RUNTIME(cudaMallocAsync, cuMemAllocAsync, (void **address, size_t bytes, void *stream), address, bytes,
        stream)
PER_THREAD(cudaMallocAsync)

EXPORTED int cuMemFreeAsync(void *address, void *stream) {
    note_work(stream);
    return release_to_pool(address);
}
RUNTIME(cudaFreeAsync, cuMemFreeAsync, (void *address, void *stream), address, stream)
PER_THREAD(cudaFreeAsync)

EXPORTED int cuDeviceGetDefaultMemPool(void **pool, int device) {
    *pool = default_pool(device);
    return *pool ? SUCCESS : INVALID_DEVICE;
}
RUNTIME(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (void **pool, int device), pool, device)

EXPORTED int cuDeviceGetMemPool(void **pool, int device) {
    *pool = pool_of(device);
    return *pool ? SUCCESS : INVALID_DEVICE;
}
RUNTIME(cudaDeviceGetMemPool, cuDeviceGetMemPool, (void **pool, int device), pool, device)

EXPORTED int cudaDeviceSetMemPool(int device, void *pool) {
    if (!card_at(device) || !pool)
        return runtime_result(INVALID_VALUE);
    current[device] = pool;
    return SUCCESS;
}

/* cudaMemPoolProps: the device's number is the second word of its location, at byte 12. */
EXPORTED int cudaMemPoolCreate(void **pool, const void *properties) {
    struct pool *created = calloc(1, sizeof *created);
    if (!created)
        return runtime_result(OPERATING_SYSTEM);
    memcpy(&created->device, (const char *)properties + 12, sizeof created->device);
    *pool = created;
    return runtime_result(card_at(created->device) ? SUCCESS : INVALID_DEVICE);
}

/* Its allocations may live on, and know their pool. */
EXPORTED int cudaMemPoolDestroy(void *pool) { return runtime_result(pool ? SUCCESS : INVALID_VALUE); }
ALIAS(cudaMemPoolTrimTo, cudaMemPoolDestroy)
ALIAS(cudaMemPoolSetAccess, cudaMemPoolDestroy)

static int get_attribute(const struct pool *pool, int attribute, void *value) {
    uint64_t number = 0;
    if (!pool || attribute < 1 || attribute > USED_HIGH)
        return INVALID_VALUE;
    if (attribute < RELEASE_THRESHOLD) {
        memcpy(value, &pool->settings[attribute], sizeof(int));
        return SUCCESS;
    }
    if (attribute == RELEASE_THRESHOLD)
        number = pool->threshold_bytes;
    else
        number =
            attribute == RESERVED_CURRENT || attribute == USED_CURRENT ? pool->used_bytes : pool->high_bytes;
    memcpy(value, &number, sizeof number);
    return SUCCESS;
}

EXPORTED int cuMemPoolSetAttribute(struct pool *pool, int attribute, const void *value) {
    if (!pool || attribute < 1 || attribute > USED_HIGH)
        return INVALID_VALUE;
    if (attribute < RELEASE_THRESHOLD)
        memcpy(&pool->settings[attribute], value, sizeof(int));
    else if (attribute == RELEASE_THRESHOLD)
        memcpy(&pool->threshold_bytes, value, sizeof pool->threshold_bytes);
    else
        pool->high_bytes = pool->used_bytes; /* the high marks can be set to zero, which means: from now on */
    return SUCCESS;
}

EXPORTED int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    if (attribute == RESERVED_CURRENT || attribute == RESERVED_HIGH)
        not_modelled("cudaMemPoolGetAttribute: reserved memory");
    return get_attribute(pool, attribute, value);
}
RUNTIME(cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (void *pool, int attribute, void *value), pool,
        attribute, value)

RUNTIME(cudaMemPoolSetAttribute, cuMemPoolSetAttribute, (void *pool, int attribute, void *value), pool,
        attribute, value)

/* cudaGraphMemAttributeType: memory that graphs allocate for themselves, which PyTorch's do not. */
EXPORTED int cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value) {
    memset(value, 0, sizeof(uint64_t));
    return runtime_result(card_at(device) ? SUCCESS : INVALID_DEVICE);
}

EXPORTED int cudaDeviceSetGraphMemAttribute(int device, int attribute, void *value) {
    return runtime_result(card_at(device) ? SUCCESS : INVALID_DEVICE);
}
