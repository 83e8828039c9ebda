/* Device memory: reserved address space, and how much of each card is taken. */
#ifndef MEMBUDGET_STAND_IN_MEMORY_H
#define MEMBUDGET_STAND_IN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "stand_in.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Copies and fills up to this size are made: index tensors and numbers hold their values. Larger ones are
   not, so that memory which is only reserved stays without pages. */
#define MOST_COPIED_BYTES MIB

enum memory_kind { DEVICE_MEMORY, MANAGED_MEMORY, POOL_MEMORY, ADDRESSES };

struct memory {
    uintptr_t start;
    size_t bytes;
    int device;
    enum memory_kind kind;
    size_t counted_bytes;
    void *owner;
};

/* An error code; the address in `*address`. `counted_bytes` of the card are taken. */
int take_memory(int device, size_t bytes, size_t counted_bytes, enum memory_kind kind, void *owner, void **address);
/* INVALID_VALUE where nothing begins at `address`. What it was is written to `released`, unless NULL. */
int release_memory(void *address, struct memory *released);
/* Whether `address` lies in memory that is taken. */
int find_memory(const void *address, struct memory *found);
/* Reserved addresses belong to the card whose memory is mapped there; the caller holds the lock. */
void set_memory_device(uintptr_t start, int device);
/* The pages of these addresses go back to the system; they are zero when read again. */
void forget_contents(uintptr_t start, size_t bytes);

/* Reserves the addresses, if that has not been done: what limits the address space later cannot prevent it. */
void reserve_addresses(void);

/* Takes or gives back part of a card's capacity; the caller holds the lock. */
int take_capacity(int device, size_t bytes);
void give_back_capacity(int device, size_t bytes);
/* What cudaMemGetInfo says of a card. */
void memory_info(int device, size_t *free_bytes, size_t *total_bytes);

int copy_memory(void *to, const void *from, size_t bytes);
int fill_memory(void *to, const void *pattern, size_t pattern_bytes, size_t count);
struct rectangle {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
};
int copy_rectangle(struct rectangle of);

int allocate_pinned(void **address, size_t bytes);
int release_pinned(void *address);
int is_pinned(const void *address);

/* Pools of stream-ordered allocations. */
struct pool;
struct pool *default_pool(int device);
int allocate_from_pool(struct pool *pool, size_t bytes, void **address);
int release_to_pool(void *address);

#endif
