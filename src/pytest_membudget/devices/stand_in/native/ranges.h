/* Sets of address ranges that do not overlap, each with a few facts. The caller holds the lock. */
#ifndef MEMBUDGET_STAND_IN_RANGES_H
#define MEMBUDGET_STAND_IN_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct range {
    uintptr_t start;
    size_t bytes;
    int device;
    int kind;
    size_t counted_bytes;
    void *owner;
};

struct ranges {
    struct range *sorted;
    size_t count, room;
};

/* Whether there was room for it. */
int add_range(struct ranges *ranges, struct range range);
/* The range that `address` lies in; NULL if it is in none. Valid until the set changes. */
struct range *find_range(const struct ranges *ranges, uintptr_t address);
void remove_range(struct ranges *ranges, struct range *range);
/* The first range that ends after `address`; NULL if none does. */
struct range *range_after(const struct ranges *ranges, uintptr_t address);

#endif
