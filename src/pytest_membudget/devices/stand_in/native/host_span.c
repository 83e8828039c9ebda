/* The span of addresses that tensors' host memory is taken from.

   One mapping without reserved pages (MAP_NORESERVE), cut into equal chunks. A chunk holds blocks of one
   power of two; a larger block takes several chunks. So the block of an address follows from the address
   alone, and a free of anything else costs one comparison. A block that was handed back loses its pages: new
   ones read as zero. */
#define _GNU_SOURCE
#include "host_span.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHUNKS 256
#define MOST_BYTES ((size_t)1 << 44)
#define LEAST_BYTES ((size_t)1 << 34)
#define PAGE_BYTES ((size_t)4096)
#define HEADER_BYTES ((size_t)64)
/* From here on a block's memory begins on a separate page. */
#define PAGED_BYTES ((size_t)1 << 16)
#define LEAST_POWER 7
#define POWERS 48

enum { FREE_CHUNK = 0, FIRST_OF_SEVERAL = 100, NEXT_OF_SEVERAL = 101 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic uintptr_t base;
static _Atomic size_t span_bytes;
static size_t chunk_bytes;
/* The power of two of its blocks, or one of the three above. */
static _Atomic unsigned char chunks[CHUNKS];
static struct host_block *spare[POWERS];
/* Of each power: where the next new block lies, and the end of its chunk. */
static uintptr_t fresh[POWERS], fresh_end[POWERS];
static int hollow_count;
static size_t held_bytes;

static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&lock); }

/* Under a limit on addresses (ulimit -v) an eighth of it: the cards' memory needs more (memory.c). */
static size_t most_bytes(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur / 8 > MOST_BYTES)
        return MOST_BYTES;
    return limit.rlim_cur / 8;
}

/* Under strict overcommit, or a limit on addresses, there may be less, or none: then the C library serves. */
static void map_span(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t most = most_bytes();
    for (size_t bytes = MOST_BYTES; bytes >= LEAST_BYTES; bytes /= 2) {
        if (bytes > most)
            continue;
        void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (start == MAP_FAILED)
            continue;
        /* a header would take a huge page, and a dump of the process the span */
        madvise(start, bytes, MADV_NOHUGEPAGE);
        madvise(start, bytes, MADV_DONTDUMP);
        chunk_bytes = bytes / CHUNKS;
        atomic_store(&base, (uintptr_t)start);
        atomic_store(&span_bytes, bytes);
        pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
        return;
    }
}

int span_holds(const void *address) {
    uintptr_t offset = (uintptr_t)address - atomic_load_explicit(&base, memory_order_relaxed);
    return offset < atomic_load_explicit(&span_bytes, memory_order_relaxed);
}

/* The first of `count` free chunks in a row, taken; -1 where there are none. */
static int take_chunks(size_t count, unsigned char first, unsigned char others) {
    size_t found = 0;
    for (int index = 0; index < CHUNKS; index++) {
        found = chunks[index] == FREE_CHUNK ? found + 1 : 0;
        if (found < count)
            continue;
        int start = index + 1 - (int)count;
        for (int taken = start; taken <= index; taken++)
            chunks[taken] = taken == start ? first : others;
        return start;
    }
    return -1;
}

static uintptr_t chunk_start(int index) { return base + (size_t)index * chunk_bytes; }

static struct host_block *take_power(int power) {
    struct host_block *block = spare[power];
    if (block) {
        spare[power] = block->next;
        return block;
    }
    if (fresh[power] == fresh_end[power]) {
        int index = take_chunks(1, (unsigned char)power, 0);
        if (index < 0)
            return NULL;
        fresh[power] = chunk_start(index);
        fresh_end[power] = fresh[power] + (chunk_bytes >> power << power);
    }
    block = (struct host_block *)fresh[power];
    fresh[power] += (size_t)1 << power;
    return block;
}

static struct host_block *take_block(size_t bytes) {
    int power = LEAST_POWER;
    while (((size_t)1 << power) < bytes)
        power++;
    if (((size_t)1 << power) <= chunk_bytes)
        return take_power(power);
    int index = take_chunks((bytes + chunk_bytes - 1) / chunk_bytes, FIRST_OF_SEVERAL, NEXT_OF_SEVERAL);
    return index < 0 ? NULL : (struct host_block *)chunk_start(index);
}

void *span_take(size_t bytes, size_t alignment, int is_pinned) {
    int has_page = bytes >= PAGED_BYTES || alignment > HEADER_BYTES;
    pthread_once(&once, map_span);
    if (!bytes || !span_bytes || alignment > PAGE_BYTES || bytes > span_bytes)
        return NULL;
    pthread_mutex_lock(&lock);
    struct host_block *block = take_block(bytes + (has_page ? PAGE_BYTES : HEADER_BYTES));
    if (block) {
        *block = (struct host_block){.bytes = bytes, .has_page = has_page, .is_pinned = is_pinned};
        held_bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
    return block ? block_address(block) : NULL;
}

static int chunk_of(const void *address) { return (int)(((uintptr_t)address - base) / chunk_bytes); }

static void give_several(struct host_block *block) {
    int index = chunk_of(block);
    madvise(block, chunk_bytes, MADV_DONTNEED);
    chunks[index++] = FREE_CHUNK;
    for (; index < CHUNKS && chunks[index] == NEXT_OF_SEVERAL; index++) {
        madvise((void *)chunk_start(index), chunk_bytes, MADV_DONTNEED);
        chunks[index] = FREE_CHUNK;
    }
}

void span_give(void *address) {
    struct host_block *block = span_block(address);
    if (!block)
        return;
    span_set_hollow(block, 0);
    pthread_mutex_lock(&lock);
    held_bytes -= block->bytes;
    int power = chunks[chunk_of(block)];
    if (power == FIRST_OF_SEVERAL) {
        give_several(block);
    } else {
        if (block->has_page)
            madvise(block, (size_t)1 << power, MADV_DONTNEED);
        *block = (struct host_block){.next = spare[power]};
        spare[power] = block;
    }
    pthread_mutex_unlock(&lock);
}

struct host_block *span_block(const void *address) {
    if (!span_holds(address))
        return NULL;
    int index = chunk_of(address), power = chunks[index];
    while (power == NEXT_OF_SEVERAL)
        power = chunks[--index];
    if (power == FREE_CHUNK)
        return NULL;
    uintptr_t start = chunk_start(index);
    if (power < POWERS)
        start += ((uintptr_t)address - start) >> power << power;
    struct host_block *block = (struct host_block *)start;
    return block->bytes ? block : NULL;
}

void *block_address(struct host_block *block) {
    return (char *)block + (block->has_page ? PAGE_BYTES : HEADER_BYTES);
}

void span_set_hollow(struct host_block *block, int reason) {
    pthread_mutex_lock(&lock);
    hollow_count += !!reason - !!block->hollow;
    block->hollow = reason;
    pthread_mutex_unlock(&lock);
}

int *span_hollow_count(void) { return &hollow_count; }

size_t span_held_bytes(void) { return held_bytes; }

int span_zero(void *address, size_t bytes) {
    uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    uintptr_t first = (begin + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
              last = end / PAGE_BYTES * PAGE_BYTES;
    if (!span_block(address))
        return 0;
    if (first >= last || madvise((void *)first, last - first, MADV_DONTNEED) != 0) {
        memset(address, 0, bytes);
        return 1;
    }
    memset(address, 0, first - begin);
    memset((void *)last, 0, end - last);
    return 1;
}

/* /proc/self/pagemap has 8 bytes a page: bit 63, it is present; bit 62, it is swapped out
   (Documentation/admin-guide/mm/pagemap.rst, Linux 6.12). Pages of 4 KiB are taken for granted, as a page
   that reads as none is then not there at all. */
int span_is_untouched(const void *address, size_t bytes) {
    uint64_t entries[4096];
    size_t page = (uintptr_t)address / PAGE_BYTES;
    size_t end = ((uintptr_t)address + bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    int file = span_block(address) && sysconf(_SC_PAGESIZE) == PAGE_BYTES
                   ? open("/proc/self/pagemap", O_RDONLY)
                   : -1;
    int is_untouched = file >= 0;
    while (is_untouched && page < end) {
        size_t wanted = end - page < 4096 ? end - page : 4096;
        ssize_t got = pread(file, entries, wanted * 8, (off_t)(page * 8));
        is_untouched = got == (ssize_t)(wanted * 8);
        for (size_t index = 0; is_untouched && index < wanted; index++)
            is_untouched = !(entries[index] >> 62);
        page += wanted;
    }
    if (file >= 0)
        close(file);
    return is_untouched;
}
