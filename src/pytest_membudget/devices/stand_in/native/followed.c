/* Addresses of tensors whose values Python knows, until their memory is given to somebody else or written to.

   Python would have to look at the results of every operator to see that; here each allocation is seen.
   PyTorch's allocator reports them all to c10::reportMemoryUsageToProfiler (c10/core/Allocator.h; called in
   c10/cuda/CUDACachingAllocator.cpp, 2.11 to 2.15), which is found here before libc10's own, and calls it.
   What does not come from that allocator comes from the runtime. */
#define _GNU_SOURCE
#include "followed.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

/* c10::Device (c10/core/Device.h): two bytes, passed as an integer is. */
struct device {
    int8_t type, index;
};
enum { CUDA = 1 }; /* c10::DeviceType (torch/headeronly/core/DeviceType.h) */

typedef void (*report_function)(void *address, int64_t bytes, size_t allocated, size_t reserved,
                                struct device);

/* How often PyTorch's allocator has given or taken back memory: 0 for long says that it reports no more. */
EXPORTED unsigned long long stand_in_reports;
/* How many addresses wait to be taken by stand_in_take_given(). */
EXPORTED unsigned long long stand_in_given;

/* Sorted by address; one that is given away keeps its place, and is mostly followed again. A tensor may lie
   within another: `reach` is where the furthest one ends that begins here or before. */
static struct followed {
    uintptr_t start;
    size_t bytes; /* 0: not followed */
    uintptr_t reach;
} *followed;
static size_t count, room;
static uintptr_t *given;
static size_t given_room;

/* The index of the first that begins behind `address`. */
static size_t index_behind(uintptr_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (followed[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Memory for one more at the end of `array`. */
static void *with_room(void *array, size_t used, size_t *of, size_t element_bytes) {
    if (used < *of)
        return array;
    *of = *of ? 2 * *of : 256;
    array = realloc(array, *of * element_bytes);
    if (!array)
        abort(); /* a value that is no longer true would be taken for known */
    return array;
}

static void set_bytes(size_t index, size_t bytes) {
    followed[index].bytes = bytes;
    for (; index < count; index++) {
        uintptr_t end = followed[index].start + followed[index].bytes,
                  before = index ? followed[index - 1].reach : 0;
        uintptr_t reach = end > before ? end : before;
        if (reach == followed[index].reach)
            return;
        followed[index].reach = reach;
    }
}

/* From here on Python is called when memory that begins at `address` is given to somebody, and when a kernel
   may have written to these `bytes`. */
EXPORTED void stand_in_follow(uintptr_t address, size_t bytes) {
    if (!bytes)
        return;
    lock_state();
    size_t index = index_behind(address);
    if (!index || followed[index - 1].start != address) {
        followed = with_room(followed, count, &room, sizeof *followed);
        memmove(followed + index + 1, followed + index, (count++ - index) * sizeof *followed);
        followed[index++] = (struct followed){.start = address};
    }
    if (bytes > followed[index - 1].bytes) /* two may know something of one storage, as far as each reaches */
        set_bytes(index - 1, bytes);
    unlock_state();
}

static void notify(size_t index) {
    given = with_room(given, stand_in_given, &given_room, sizeof *given);
    given[stand_in_given++] = followed[index].start;
    set_bytes(index, 0);
}

void memory_given(uintptr_t address) {
    size_t index = index_behind(address);
    if (index && followed[index - 1].start == address && followed[index - 1].bytes)
        notify(index - 1);
}

void memory_written(uintptr_t address) {
    for (size_t index = index_behind(address); index && followed[index - 1].reach > address; index--)
        if (address - followed[index - 1].start < followed[index - 1].bytes)
            notify(index - 1);
}

/* Takes out at most `most` of the followed addresses whose memory was given to somebody; how many. */
EXPORTED size_t stand_in_take_given(uintptr_t *taken, size_t most) {
    size_t found = 0;
    lock_state();
    while (found < most && stand_in_given)
        taken[found++] = given[--stand_in_given];
    unlock_state();
    return found;
}

static void report_to_torch(void *address, int64_t bytes, size_t allocated, size_t reserved,
                            struct device device) {
    static report_function report;
    if (!report) {
        void *library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
        report =
            library ? (report_function)dlsym(library, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
                    : NULL;
        if (!report)
            abort(); /* its caller has loaded it */
    }
    report(address, bytes, allocated, reserved, device);
}

EXPORTED void
report_memory(void *address, int64_t bytes, size_t allocated, size_t reserved,
              struct device device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

void report_memory(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device) {
    if (device.type == CUDA) {
        lock_state();
        stand_in_reports++;
        if (bytes > 0)
            memory_given((uintptr_t)address);
        unlock_state();
    }
    report_to_torch(address, bytes, allocated, reserved, device);
}
