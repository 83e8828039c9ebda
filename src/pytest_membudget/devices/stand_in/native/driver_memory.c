/* The driver's memory functions: those that are not second names of the runtime's.

   Source of prototypes and constants: CUDA Driver API 13.2, "Memory Management", "Unified Addressing". */
#include <string.h>

#include "captures.h"
#include "contexts.h"
#include "errors.h"
#include "memory.h"
#include "refuse.h"
#include "tables.h"

EXPORTED int cuMemAlloc_v2(void **memory, size_t bytes) {
    if (!bytes)
        return INVALID_VALUE;
    return take_memory(current_device(), bytes, bytes, DEVICE_MEMORY, NULL, memory);
}

EXPORTED int cuMemAllocManaged(void **memory, size_t bytes, unsigned flags) {
    not_modelled("cuMemAllocManaged");
    return take_memory(current_device(), bytes, 0, MANAGED_MEMORY, NULL, memory);
}

EXPORTED int cuMemGetAddressRange_v2(uint64_t *start, size_t *bytes, const void *within) {
    struct range memory;
    if (!find_memory(within, &memory))
        return INVALID_VALUE;
    if (start)
        *start = memory.start;
    if (bytes)
        *bytes = memory.bytes;
    return SUCCESS;
}

EXPORTED int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream) {
    note_work(stream);
    return copy_memory(to, from, bytes);
}

EXPORTED int cuMemcpy(void *to, const void *from, size_t bytes) { return copy_memory(to, from, bytes); }

#define COPY(name)                                                                        \
    EXPORTED int name##_v2(void *to, const void *from, size_t bytes) {                    \
        return copy_memory(to, from, bytes);                                              \
    }                                                                                     \
    EXPORTED int name##Async_v2(void *to, const void *from, size_t bytes, void *stream) { \
        return cuMemcpyAsync(to, from, bytes, stream);                                    \
    }
COPY(cuMemcpyHtoD)
COPY(cuMemcpyDtoH)
COPY(cuMemcpyDtoD)

/* The same name stem for 1, 2 and 4 bytes: count times a value. */
#define FILL(name, type)                                                         \
    EXPORTED int name##Async(void *to, type value, size_t count, void *stream) { \
        note_work(stream);                                                       \
        return fill_memory(to, &value, sizeof value, count);                     \
    }                                                                            \
    EXPORTED int name##_v2(void *to, type value, size_t count) {                 \
        return fill_memory(to, &value, sizeof value, count);                     \
    }
FILL(cuMemsetD8, unsigned char)
FILL(cuMemsetD16, unsigned short)
FILL(cuMemsetD32, unsigned)

EXPORTED int cuStreamWriteValue32_v2(void *stream, void *address, unsigned value, unsigned flags) {
    return cuMemsetD32Async(address, value, 1, stream);
}

/* CUpointer_attribute */
enum {
    OF_CONTEXT = 1,
    OF_MEMORY_TYPE,
    OF_DEVICE_POINTER,
    OF_HOST_POINTER,
    OF_MANAGED = 8,
    OF_DEVICE,
    OF_START = 11,
    OF_SIZE,
    OF_MAPPED
};
enum { UNKNOWN_ATTRIBUTE = -1 };
/* CUmemorytype */
enum { ON_HOST = 1, ON_CARD };

static int pointer_attribute(void *value, int attribute, void *pointer) {
    struct range memory;
    int on_card = find_memory(pointer, &memory), known = on_card || is_pinned(pointer);
    int device = on_card ? memory.device : current_device();
    uint64_t number = 0;
    size_t bytes = 8;
    switch (attribute) {
    case OF_CONTEXT: number = known ? (uintptr_t)primary_context(device) : 0; break;
    case OF_MEMORY_TYPE:
        number = on_card ? ON_CARD : known ? ON_HOST : 0;
        bytes = 4;
        break;
    case OF_DEVICE_POINTER: number = known ? (uintptr_t)pointer : 0; break;
    case OF_HOST_POINTER: number = on_card && memory.kind != MANAGED_MEMORY ? 0 : (uintptr_t)pointer; break;
    case OF_MANAGED:
        number = on_card && memory.kind == MANAGED_MEMORY;
        bytes = 4;
        break;
    case OF_DEVICE:
        number = known ? (unsigned)device : (unsigned)-2;
        bytes = 4;
        break;
    case OF_START: number = on_card ? memory.start : 0; break;
    case OF_SIZE: number = on_card ? memory.bytes : 0; break;
    case OF_MAPPED:
        number = (unsigned)known;
        bytes = 4;
        break;
    default: return UNKNOWN_ATTRIBUTE;
    }
    memcpy(value, &number, bytes);
    return known ? SUCCESS : INVALID_VALUE;
}

EXPORTED int cuPointerGetAttribute(void *value, int attribute, void *pointer) {
    int error = pointer_attribute(value, attribute, pointer);
    return error == UNKNOWN_ATTRIBUTE ? (int)stand_in_refuse("libcuda", "cuPointerGetAttribute") : error;
}

/* Unlike the function for one, this succeeds for addresses that CUDA does not know. */
EXPORTED int cuPointerGetAttributes(unsigned count, const int *attributes, void **values, void *pointer) {
    for (unsigned index = 0; index < count; index++)
        if (pointer_attribute(values[index], attributes[index], pointer) == UNKNOWN_ATTRIBUTE)
            return (int)stand_in_refuse("libcuda", "cuPointerGetAttributes");
    return SUCCESS;
}

SUCCEEDS(cuPointerSetAttribute) /* only whether operations on it are synchronous can be set */
