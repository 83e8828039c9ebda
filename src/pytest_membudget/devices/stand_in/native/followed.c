/* Addresses of tensors whose values Python knows, until their memory is given to somebody else or written to.

   Python would have to look at the results of every operator to see that; here each allocation is seen.
   PyTorch's allocator reports them all to c10::reportMemoryUsageToProfiler (c10/core/Allocator.h;
   called in c10/cuda/CUDACachingAllocator.cpp, 2.11 to 2.15), which is found here before libc10's own, and calls
   it. What does not come from that allocator comes from the runtime. */
#define _GNU_SOURCE
#include "followed.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "stand_in.h"

/* c10::Device (c10/core/Device.h): two bytes, passed as an integer is. */
struct device {
    int8_t type, index;
};
enum { CUDA = 1 }; /* c10::DeviceType (torch/headeronly/core/DeviceType.h) */

typedef void (*report_function)(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device);

/* How often PyTorch's allocator has given or taken back memory: 0 for long says that it reports no more. */
EXPORTED unsigned long long stand_in_reports;
/* How many addresses wait to be taken by stand_in_take_given(). */
EXPORTED unsigned long long stand_in_given;

/* Open addressing; an address that is given away keeps its place, and is mostly followed again. */
struct slot {
    uintptr_t address;
    size_t bytes; /* 0: not followed */
};
static struct slot *slots;
static size_t room, filled;
static uintptr_t *given;
static size_t given_room;

static struct slot *slot_of(struct slot *table, size_t size, uintptr_t address)
{
    size_t index = (address >> 9) * 0x9E3779B97F4A7C15u >> 20; /* blocks begin at multiples of 512 */
    for (;; index++) {
        struct slot *slot = &table[index & (size - 1)];
        if (!slot->address || slot->address == address)
            return slot;
    }
}

static int make_room(void)
{
    if (2 * filled < room)
        return 1;
    size_t more = room ? 2 * room : 1024;
    struct slot *table = calloc(more, sizeof *table);
    if (!table)
        return 0;
    for (size_t index = 0; index < room; index++)
        if (slots[index].address)
            *slot_of(table, more, slots[index].address) = slots[index];
    free(slots);
    slots = table;
    room = more;
    return 1;
}

/* From here on Python is called when memory that begins at `address` is given to somebody, and when a kernel may have
   written to these `bytes`. */
EXPORTED void stand_in_follow(uintptr_t address, size_t bytes)
{
    lock_state();
    if (!make_room())
        abort(); /* a value that is no longer true would be taken for known */
    struct slot *slot = slot_of(slots, room, address);
    filled += !slot->address;
    slot->address = address;
    if (bytes > slot->bytes) /* two may know something of one storage, as far as each reaches */
        slot->bytes = bytes;
    unlock_state();
}

static void notify(struct slot *slot)
{
    if (stand_in_given == given_room) {
        size_t more = given_room ? 2 * given_room : 256;
        uintptr_t *longer = realloc(given, more * sizeof *longer);
        if (!longer)
            abort();
        given = longer;
        given_room = more;
    }
    slot->bytes = 0;
    given[stand_in_given++] = slot->address;
}

void memory_given(uintptr_t address)
{
    struct slot *slot = room ? slot_of(slots, room, address) : NULL;
    if (slot && slot->bytes)
        notify(slot);
}

void memory_written(uintptr_t address)
{
    for (size_t index = 0; index < room; index++)
        if (address - slots[index].address < slots[index].bytes)
            notify(&slots[index]);
}

/* Takes out at most `most` of the followed addresses whose memory was given to somebody; how many. */
EXPORTED size_t stand_in_take_given(uintptr_t *taken, size_t most)
{
    size_t count = 0;
    lock_state();
    while (count < most && stand_in_given)
        taken[count++] = given[--stand_in_given];
    unlock_state();
    return count;
}

static void report_to_torch(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device)
{
    static report_function report;
    if (!report) {
        void *library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
        report = library ? (report_function)dlsym(library, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
                         : NULL;
        if (!report)
            abort(); /* its caller has loaded it */
    }
    report(address, bytes, allocated, reserved, device);
}

EXPORTED void report_memory(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device)
    __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

void report_memory(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device)
{
    if (device.type == CUDA) {
        lock_state();
        stand_in_reports++;
        if (bytes > 0)
            memory_given((uintptr_t)address);
        unlock_state();
    }
    report_to_torch(address, bytes, allocated, reserved, device);
}
