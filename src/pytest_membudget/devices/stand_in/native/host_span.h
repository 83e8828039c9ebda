/* The span of addresses that tensors' host memory is taken from. */
#ifndef MEMBUDGET_HOST_SPAN_H
#define MEMBUDGET_HOST_SPAN_H

#include <stddef.h>
#include <stdint.h>

/* Why a block's values are not to be trusted; Python has further reasons (stand_in/host/memory.py). */
enum { HOLLOW_NOT_COMPUTED = 2 };

/* Lies at the beginning of each block. */
struct host_block {
    size_t bytes;            /* as asked for; 0: nobody's */
    struct host_block *next; /* the next free block of this size */
    int has_page;            /* memory begins a page later, or else HEADER_BYTES later */
    int is_pinned;
    int hollow; /* the reason; 0: they are to be trusted */
};

/* Memory of a new block; NULL where the span has no room. */
void *span_take(size_t bytes, size_t alignment, int is_pinned);
void span_give(void *address);

/* Whether `address` lies in the span: cheap, for every free of the process. */
int span_holds(const void *address);

/* The live block that `address` lies in, or NULL. */
struct host_block *span_block(const void *address);
void *block_address(struct host_block *block);

void span_set_hollow(struct host_block *block, int reason);
int *span_hollow_count(void);
size_t span_held_bytes(void);
int span_zero(void *address, size_t bytes);
int span_is_untouched(const void *address, size_t bytes);

#endif
