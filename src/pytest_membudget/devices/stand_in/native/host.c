/* Host memory of tensors: counted to the byte, and without pages until somebody writes to it.

   PyTorch's CPU allocator (c10/core/impl/alloc_cpu.cpp, 2.11 to 2.15) calls posix_memalign and free. A
   preloaded library is found first: what libc10.so asks for is taken from a span of reserved addresses here,
   and every other caller goes on to the C library. Pinned memory comes from the same span. */
#define _GNU_SOURCE
#include "host.h"
#include "host_events.h"
#include "host_span.h"
#include "stand_in.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

typedef int (*memalign_function)(void **, size_t, size_t);
typedef void (*free_function)(void *);

/* The place in libc10.so that asks for tensors' memory, once it is known. */
static _Atomic(void *) tensors_call;

static int is_libc10(void *caller) {
    Dl_info found;
    if (caller == atomic_load_explicit(&tensors_call, memory_order_relaxed))
        return 1;
    if (!dladdr(caller, &found) || !found.dli_fname)
        return 0;
    const char *slash = strrchr(found.dli_fname, '/');
    const char *name = slash ? slash + 1 : found.dli_fname;
    if (strncmp(name, "libc10.so", strlen("libc10.so")) != 0)
        return 0;
    atomic_store_explicit(&tensors_call, caller, memory_order_relaxed);
    return 1;
}

static void *block_for(size_t bytes, size_t alignment, int pinned) {
    void *address = span_take(bytes, alignment, pinned);
    if (address)
        events_add(pinned ? EVENT_PINNED : EVENT_PAGEABLE, address, bytes);
    return address;
}

static void give_back(void *address) {
    struct host_block *block = span_block(address);
    if (!block || block_address(block) != address)
        return;
    /* before the address can be another block's */
    events_add(EVENT_FREED, address, 0);
    span_give(address);
}

EXPORTED int posix_memalign(void **result, size_t alignment, size_t bytes) {
    static _Atomic(memalign_function) next;
    if (is_libc10(__builtin_return_address(0))) {
        void *address = block_for(bytes, alignment, 0);
        if (address) {
            *result = address;
            return 0;
        }
    }
    memalign_function known = atomic_load_explicit(&next, memory_order_relaxed);
    if (!known) {
        known = (memalign_function)dlsym(RTLD_NEXT, "posix_memalign");
        atomic_store_explicit(&next, known, memory_order_relaxed);
    }
    return known ? known(result, alignment, bytes) : ENOMEM;
}

EXPORTED void free(void *address) {
    static _Atomic(free_function) next;
    static __thread int is_looking __attribute__((tls_model("initial-exec")));
    if (span_holds(address)) {
        give_back(address);
        return;
    }
    free_function known = atomic_load_explicit(&next, memory_order_relaxed);
    if (!known) {
        if (is_looking) /* dlsym itself frees something: the few bytes stay taken */
            return;
        is_looking = 1;
        known = (free_function)dlsym(RTLD_NEXT, "free");
        is_looking = 0;
        atomic_store_explicit(&next, known, memory_order_relaxed);
    }
    if (known)
        known(address);
}

void *host_pinned(size_t bytes) { return block_for(bytes, 4096, 1); }

int host_unpinned(void *address) {
    struct host_block *block = span_block(address);
    if (!block || !block->is_pinned || block_address(block) != address)
        return 0;
    give_back(address);
    return 1;
}

void host_registered(const void *address, size_t bytes, int is_pinned) {
    if (!span_holds(address)) /* a tensor's is counted as it is */
        events_add(is_pinned ? EVENT_PINNED : EVENT_FREED, address, bytes);
}

void host_made_hollow(const void *address) {
    struct host_block *block = span_block(address);
    if (block)
        span_set_hollow(block, HOLLOW_NOT_COMPUTED);
}

/* For Python (stand_in/host/memory.py). */

EXPORTED void stand_in_host_set_hollow(const void *address, int reason) {
    struct host_block *block = span_block(address);
    if (block)
        span_set_hollow(block, reason);
}

/* The reason why the values at `address` are not to be trusted; 0 where they are. */
EXPORTED int stand_in_host_hollow(const void *address) {
    const struct host_block *block = span_block(address);
    return block ? block->hollow : 0;
}

EXPORTED int stand_in_host_holds(const void *address) { return span_block(address) != NULL; }

/* Live blocks that are hollow. Python looks it up where it lies, before every operator. */
EXPORTED int *stand_in_host_hollow_blocks(void) { return span_hollow_count(); }

/* What live blocks have, without alignment. */
EXPORTED size_t stand_in_host_held_bytes(void) { return span_held_bytes(); }

/* Zeroes memory without touching its pages; 0 where it is not a tensor's from here. */
EXPORTED int stand_in_host_zero(void *address, size_t bytes) { return span_zero(address, bytes); }

/* Whether nobody has written to these pages: they are zero. */
EXPORTED int stand_in_host_is_untouched(const void *address, size_t bytes) {
    return span_is_untouched(address, bytes);
}
