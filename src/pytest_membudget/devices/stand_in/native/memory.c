/* Device memory: one region of reserved address space for all cards, without pages until something is
   written.

   Addresses are as the driver's, since PyTorch's allocator orders blocks of one size by them
   (BlockComparatorSize, CUDACachingAllocator.cpp): which one is used again, and whether it is split, decides
   what is allocated and reserved. The driver reserves addresses in multiples of 32 MiB, each below those
   before, and hands out the lowest gap in them that is wide enough, from its start on: read off the histories
   of an H200 (benchmarks/measured, driver 580.159.04), whose first allocations also fill gaps between
   libraries. */
#define _GNU_SOURCE
#include "memory.h"

#include <sys/mman.h>

#include "errors.h"
#include "followed.h"

/* cudaMalloc hands out memory in pages of 2 MiB; several smaller allocations share one on a real card.
   PyTorch's allocator asks for multiples of 2 MiB only (kSmallBuffer, kRoundLarge;
   c10/core/CachingDeviceAllocator.h). */
#define PAGE_BYTES (2 * MIB)
/* Far from where Linux puts programs, heaps and libraries with 47 and 48 bits of address space. */
#define REGION_START ((uintptr_t)0x200000000000)
#define MOST_REGION_BYTES ((size_t)1 << 45)
#define LEAST_REGION_BYTES ((size_t)1 << 38)

static size_t region_bytes;
static uintptr_t lowest_address; /* that is reserved by the driver; 0 before any is */
/* What the driver reserves at once. */
#define SLOT_BYTES (32 * MIB)
static struct ranges taken;
static size_t used_bytes[MOST_CARDS], most_used_bytes[MOST_CARDS];

/* The largest region that the system gives: limits of address space (ulimit -v) may make it smaller. */
static int reserve_region(void) {
    for (size_t bytes = MOST_REGION_BYTES; !region_bytes && bytes >= LEAST_REGION_BYTES; bytes /= 2) {
        void *got = mmap((void *)REGION_START, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == (void *)REGION_START) {
            /* one written byte is not to cost a huge page, and core files are to stay small */
            madvise(got, bytes, MADV_NOHUGEPAGE);
            madvise(got, bytes, MADV_DONTDUMP);
            region_bytes = bytes;
        } else if (got != MAP_FAILED)
            munmap(got, bytes);
    }
    return region_bytes != 0;
}

/* Reserves the addresses, if that has not been done: what limits the address space later cannot prevent
   it. */
EXPORTED void stand_in_reserve_addresses(void) {
    lock_state();
    reserve_region();
    unlock_state();
}

/* The lowest gap of `bytes` in what the driver has reserved; 0 if there is none. */
static uintptr_t lowest_gap(size_t bytes) {
    uintptr_t start = lowest_address;
    for (size_t index = 0; index < taken.count; index++) {
        if (taken.sorted[index].start - start >= bytes)
            return start;
        start = taken.sorted[index].start + taken.sorted[index].bytes;
    }
    return REGION_START + region_bytes - start >= bytes ? start : 0;
}

static uintptr_t choose_address(size_t bytes) {
    if (!lowest_address)
        lowest_address = REGION_START + region_bytes;
    uintptr_t gap = lowest_gap(bytes);
    if (gap)
        return gap;
    size_t slot_bytes = (bytes + SLOT_BYTES - 1) / SLOT_BYTES * SLOT_BYTES;
    if (slot_bytes > lowest_address - REGION_START)
        return 0;
    return lowest_address -= slot_bytes;
}

int take_capacity(int device, size_t bytes) {
    const struct card *card = card_at(device);
    if (!card)
        return INVALID_DEVICE;
    if (bytes > card->capacity_bytes || used_bytes[device] > card->capacity_bytes - bytes)
        return OUT_OF_MEMORY;
    used_bytes[device] += bytes;
    if (used_bytes[device] > most_used_bytes[device])
        most_used_bytes[device] = used_bytes[device];
    return SUCCESS;
}

/* The most that has been taken of a card at once, by PyTorch's allocator and others. */
EXPORTED size_t stand_in_most_used_bytes(int device) { return most_used_bytes[device]; }

void give_back_capacity(int device, size_t bytes) { used_bytes[device] -= bytes; }

static int take_locked(struct range range, void **address) {
    if (!reserve_region())
        return OPERATING_SYSTEM;
    int error = take_capacity(range.device, range.counted_bytes);
    if (error)
        return error;
    range.start = choose_address(range.bytes);
    if (!range.start || !add_range(&taken, range)) {
        give_back_capacity(range.device, range.counted_bytes);
        return OPERATING_SYSTEM;
    }
    *address = (void *)range.start;
    memory_given(range.start);
    return SUCCESS;
}

int take_memory(int device, size_t bytes, size_t counted_bytes, enum memory_kind kind, void *owner,
                void **address) {
    *address = NULL;
    if (bytes > MOST_REGION_BYTES)
        return OUT_OF_MEMORY;
    if (!bytes)
        return SUCCESS; /* as the runtime: no address, no error */
    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct range range = {
        .bytes = bytes, .counted_bytes = counted_bytes, .device = device, .kind = kind, .owner = owner};
    if (kind == DEVICE_MEMORY)
        range.counted_bytes = bytes;
    lock_state();
    int error = take_locked(range, address);
    unlock_state();
    return error;
}

int release_memory(void *address, struct range *released) {
    lock_state();
    struct range *range = find_range(&taken, (uintptr_t)address);
    int known = range && range->start == (uintptr_t)address;
    if (known) {
        if (released)
            *released = *range;
        give_back_capacity(range->device, range->counted_bytes);
        forget_contents(range->start, range->bytes);
        remove_range(&taken, range);
    }
    unlock_state();
    return known ? SUCCESS : INVALID_VALUE;
}

int find_memory(const void *address, struct range *found) {
    lock_state();
    struct range *range = find_range(&taken, (uintptr_t)address);
    if (range)
        *found = *range;
    unlock_state();
    return range != NULL;
}

void set_memory_device(uintptr_t start, int device) {
    struct range *range = find_range(&taken, start);
    if (range)
        range->device = device;
}

void forget_contents(uintptr_t start, size_t bytes) { madvise((void *)start, bytes, MADV_DONTNEED); }

void memory_info(int device, size_t *free_bytes, size_t *total_bytes) {
    const struct card *card = card_at(device);
    lock_state();
    size_t usable = card->total_bytes - card->context_bytes;
    if (card->capacity_bytes < usable)
        usable = card->capacity_bytes;
    *free_bytes = usable > used_bytes[device] ? usable - used_bytes[device] : 0;
    *total_bytes = card->total_bytes;
    unlock_state();
}

int is_on_card(const void *address) {
    uintptr_t offset = (uintptr_t)address - REGION_START;
    return (uintptr_t)address >= REGION_START && offset < region_bytes;
}
