/* Births and deaths of tensors' host memory, in order. */
#ifndef MEMBUDGET_HOST_EVENTS_H
#define MEMBUDGET_HOST_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum { EVENT_PAGEABLE, EVENT_PINNED, EVENT_FREED, EVENT_REGISTERED, EVENT_UNREGISTERED };

/* Read by Python (stand_in/host/memory.py) as it lies. */
struct host_event {
    uint64_t address;
    uint64_t bytes;
    int32_t what;
    int32_t state; /* what the thread was in: stand_in_host_set_state; -1: nobody said */
};

void events_add(int what, const void *address, size_t bytes);

/* For other libraries, and for Python. */
void stand_in_host_set_hollow(const void *address, int is_hollow);

#endif
