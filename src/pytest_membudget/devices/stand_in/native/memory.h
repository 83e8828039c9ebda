/* Device memory: reserved address space, and how much of each card is taken. */
#ifndef MEMBUDGET_STAND_IN_MEMORY_H
#define MEMBUDGET_STAND_IN_MEMORY_H

#include "ranges.h"
#include "stand_in.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Copies and fills up to this size are made: index tensors and numbers hold their values. Larger ones are
   not, so that memory which is only reserved stays without pages. */
#define MOST_COPIED_BYTES MIB

enum memory_kind { DEVICE_MEMORY, MANAGED_MEMORY, POOL_MEMORY, ADDRESSES }; /* of a range */

/* An error code; the address in `*address`. `counted_bytes` of the card are taken. */
int take_memory(int device, size_t bytes, size_t counted_bytes, enum memory_kind kind, void *owner,
                void **address);
/* INVALID_VALUE where nothing begins at `address`. What it was is written to `released`, unless NULL. */
int release_memory(void *address, struct range *released);
/* Whether `address` lies in memory that is taken. */
int find_memory(const void *address, struct range *found);
/* Reserved addresses belong to the card whose memory is mapped there; the caller holds the lock. */
void set_memory_device(uintptr_t start, int device);
/* The pages of these addresses go back to the system; they are zero when read again. */
void forget_contents(uintptr_t start, size_t bytes);

/* Takes or gives back part of a card's capacity; the caller holds the lock. */
int take_capacity(int device, size_t bytes);
void give_back_capacity(int device, size_t bytes);
/* What cudaMemGetInfo says of a card. */
void memory_info(int device, size_t *free_bytes, size_t *total_bytes);

int copy_memory(void *to, const void *from, size_t bytes);
int fill_memory(void *to, const void *pattern, size_t pattern_bytes, size_t count);

int is_pinned(const void *address);

#endif
