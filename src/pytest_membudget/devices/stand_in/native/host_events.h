/* Births and deaths of tensors' host memory, in order. */
#ifndef MEMBUDGET_HOST_EVENTS_H
#define MEMBUDGET_HOST_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum { EVENT_PAGEABLE, EVENT_PINNED, EVENT_FREED };

/* Read by Python (stand_in/host/memory.py). */
struct host_event {
    uint64_t address;
    uint64_t bytes;
    int64_t what;
};

void events_add(int what, const void *address, size_t bytes);

#endif
